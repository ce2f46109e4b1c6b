"""`models.csv` from the facts' models: config fields under the names of `pycore.nouns.Model`, one row a model."""

from collections.abc import Iterable, Iterator

COLUMNS = (
    "id", "name", "hub_repository", "hidden_size", "layers", "attention_heads", "kv_heads", "head_dim",
    "intermediate_size", "vocabulary", "tied_embeddings", "max_context", "layer_kinds", "window",
    "query_latent_rank", "latent_rank", "rope_dim", "qk_nope_dim", "value_dim", "indexer_heads", "indexer_dim",
    "linear_key_heads", "linear_value_heads", "linear_head_dim", "linear_kernel",
    "qkv_bias", "output_bias", "gated_mlp", "mlp_bias", "norm_kind", "norms_per_layer", "qk_norm", "output_gate",
    "attention_sinks", "learned_positions", "experts", "experts_per_token", "expert_size", "shared_experts",
    "shared_size", "first_dense_layers", "expert_layer_step", "dense_size", "router_bias", "shared_gate", "expert_bias",
    "mtp_layers", "mtp_own_embeddings", "native_dtype", "stored_format", "published_parameters", "vision_parameters",
    "source", "published_source", "note",
)
CHECK_COLUMNS = ("id", "published", "published_source", "facts_computed", "facts_active", "facts_mtp", "exception")

# What the facts' columns do not hold, from the same stored sources (aiconfigurator-core 0.12.0 model_configs, verbatim
# config.json files; transformers 5.24.0 modelling code for what a layer stores).
_DSA = {"indexer_heads": 64, "indexer_dim": 128}  # index_n_heads, index_head_dim
_DEEPSEEK = {"router_bias": True, "mtp_layers": 1, "mtp_own_embeddings": True}
_QWEN35 = {"output_gate": True, "mtp_layers": 1, "linear_key_heads": 16, "linear_head_dim": 128, "linear_kernel": 4}
EXTRA = {
    "deepseek-ai--deepseek-v3": _DEEPSEEK, "deepseek-ai--deepseek-r1": _DEEPSEEK,
    "deepseek-ai--deepseek-v3.2": _DEEPSEEK | _DSA,
    "zai-org--glm-5": _DEEPSEEK | _DSA | {"indexer_heads": 32},
    "zai-org--glm-4.5": _DEEPSEEK, "zai-org--glm-4.5-air": _DEEPSEEK,
    "moonshotai--kimi-k2-instruct": {"router_bias": True}, "moonshotai--kimi-k2.5": {"router_bias": True},
    "minimaxai--minimax-m2.5": {"router_bias": True},
    "openai--gpt-oss-20b": {"router_bias": True, "expert_bias": True, "attention_sinks": True},
    "openai--gpt-oss-120b": {"router_bias": True, "expert_bias": True, "attention_sinks": True},
    "qwen--qwen3.5-27b": _QWEN35 | {"linear_value_heads": 48},
    "qwen--qwen3.5-35b-a3b": _QWEN35 | {"linear_value_heads": 32, "shared_gate": True},
    "qwen--qwen3.5-397b-a17b": _QWEN35 | {"linear_value_heads": 64, "shared_gate": True},
    "openai-community--gpt2": {"learned_positions": 1024}, "openai-community--gpt2-xl": {"learned_positions": 1024},
    # the 1.5B distillation's own config was not found; the 7B's GGUF header says 131,072
    "deepseek-ai--deepseek-r1-distill-qwen-1.5b": {"max_context": 131072},
}

# Layer kinds as one period: F full, S sliding window, C chunked, L linear, M latent.
PERIODS = {
    "all layers": "S", "alternating: even-indexed layers sliding, odd full": "SF",
    "5 sliding : 1 full (every 6th layer full)": "SSSSSF",
    "chunked attention (attention_chunk_size 8192) on 3 of every 4 layers; every 4th layer is full attention "
    "without RoPE": "CCCF",
}


def layer_kinds(fact: dict) -> str:
    """The period of layer kinds; raises ValueError when the facts' own counts of layers disagree with it."""
    if fact["attention_kind"] == "mla":
        kinds = "M"
    elif fact["linear_attention_layers"]:
        kinds = "LLLF"
    else:
        kinds = PERIODS[fact["sliding_window_layers"]] if fact["sliding_window_layers"] else "F"
    layers = [kinds[layer % len(kinds)] for layer in range(fact["num_hidden_layers"])]
    if sum(kind in "SC" for kind in layers) != fact["num_sliding_layers"]:
        raise ValueError(f"{fact['id']}: {kinds} does not give {fact['num_sliding_layers']} sliding layers")
    if sum(kind in "FM" for kind in layers) != fact["num_full_attention_layers"]:
        raise ValueError(f"{fact['id']}: {kinds} does not give {fact['num_full_attention_layers']} full layers")
    return kinds


def vision_parameters(fact: dict) -> int | None:
    """Size of a vision tower and projector that the published count includes."""
    if fact["vision_params_note"] and fact["total_params"]:
        return fact["total_params"] - fact["computed_params"]
    return None


def stored_format(dtype: str) -> str | None:
    """The catalogue's format of checkpoints that are published quantised."""
    return "fp8-block-128x128" if dtype.startswith("fp8") else "mxfp4" if dtype.startswith("mxfp4") else None


def row(fact: dict) -> dict:
    """One model under our column names."""
    kinds, latent = layer_kinds(fact), fact["attention_kind"] == "mla"
    key_dim = fact["qk_nope_head_dim"] + fact["qk_rope_head_dim"] if latent else fact["head_dim"]
    mixture = fact["num_experts"] is not None
    return dict.fromkeys(COLUMNS) | {
        "id": fact["id"], "name": fact["name"], "hub_repository": fact["hf_repo"],
        "hidden_size": fact["hidden_size"], "layers": fact["num_hidden_layers"],
        "attention_heads": fact["num_attention_heads"], "kv_heads": fact["num_key_value_heads"], "head_dim": key_dim,
        "intermediate_size": fact["intermediate_size"] or 0, "vocabulary": fact["vocab_size"],
        "tied_embeddings": fact["tie_word_embeddings"], "max_context": fact["max_position_embeddings"],
        "layer_kinds": kinds, "window": fact["sliding_window"] if set(kinds) & set("SC") else None,
        "query_latent_rank": fact["q_lora_rank"], "latent_rank": fact["kv_lora_rank"],
        "rope_dim": fact["qk_rope_head_dim"], "qk_nope_dim": fact["qk_nope_head_dim"], "value_dim": fact["v_head_dim"],
        "qkv_bias": fact["attention_bias_qkv"], "output_bias": fact["attention_bias_output"],
        "gated_mlp": bool(fact["mlp_gated"]), "mlp_bias": bool(fact["mlp_bias"]), "norm_kind": fact["norm_kind"],
        "norms_per_layer": fact["norms_per_layer"],
        "qk_norm": fact["qk_norm"] if fact["qk_norm"] in ("per_head", "full") else None,
        "experts": fact["num_experts"], "experts_per_token": fact["experts_per_token"],
        "expert_size": fact["moe_intermediate_size"] if mixture else None, "shared_experts": fact["num_shared_experts"],
        "shared_size": fact["shared_expert_intermediate_size"], "first_dense_layers": fact["first_dense_layers"],
        "expert_layer_step": fact["moe_layer_step"], "dense_size": fact["dense_intermediate_size"],
        "native_dtype": fact["native_dtype"] or "bfloat16", "stored_format": stored_format(fact["native_dtype"] or ""),
        "published_parameters": fact["total_params"], "vision_parameters": vision_parameters(fact),
        "source": fact["config_source"],
        "published_source": fact["total_params_source"], "note": fact["note"],
    } | EXTRA.get(fact["id"], {})


def flat(value: object) -> object:
    """Booleans as 1 and an empty cell: short, and read back by their column."""
    return {True: 1, False: None}[value] if isinstance(value, bool) else value


def rows(facts: Iterable[dict]) -> Iterator[dict]:
    """Every model, in the facts' order."""
    for fact in facts:
        yield {column: flat(value) for column, value in row(fact).items()}


def check_rows(facts: Iterable[dict]) -> Iterator[dict]:
    """What the parameter test compares with: published counts, and the facts' own recomputation."""
    for fact in facts:
        yield {
            "id": fact["id"], "published": fact["total_params"], "published_source": fact["total_params_source"],
            "facts_computed": fact["computed_params"], "facts_active": fact["computed_active_params"],
            "facts_mtp": fact["computed_mtp_params"], "exception": fact["mismatch_explanation"],
        }
