"""What an architecture fixes beyond its config's fields: biases, norms, gating, ties, and its class's default values.

Read off transformers 5.24.0 (Apache-2.0), configuration and modelling files of each model type; nothing is copied but
the values. An architecture is one entry here; what all share needs none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One architecture. A bias is the config's field that decides it, or the fixed answer."""

    qkv_bias: str | bool = "attention_bias"
    output_bias: str | bool = "attention_bias"
    mlp_bias: str | bool = "mlp_bias"
    gated_mlp: bool = True
    norm_kind: str = "rmsnorm"  # "layernorm": with bias; "rmsnorm": one weight, so also LayerNorm without bias
    norms_per_layer: int = 2
    qk_norm: str | None = None
    qk_norm_field: str = ""  # the field that switches the norm on
    four_times: bool = False  # intermediate size is 4 x hidden where none is given
    period: int = 0  # every how many layers one is full, the others sliding (linear)
    slides: bool = True  # a sliding window without further word holds in every layer
    expert_size: str = "moe_intermediate_size"
    shared_size: str = ""  # the field that sizes one shared expert where the config counts none
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    sinks: str = ""  # kinds of layer that have attention sinks: "all", "sliding"
    output_gate: bool = False
    mtp_own_embeddings: bool = False
    positions_offset: int | None = None  # learned positions: as many as max_position_embeddings, plus this
    defaults: Mapping[str, Any] = field(default_factory=dict)


BIASED = {"qkv_bias": True, "output_bias": True, "mlp_bias": True}
TIED = {"tie_word_embeddings": True}
WINDOW = {"sliding_window": 4096}
GEMMA = TIED | {"head_dim": 256}
LEARNT = {"gated_mlp": False, "norm_kind": "layernorm", "four_times": True, "positions_offset": 0}
LENGTH = {"max_position_embeddings": 1024}
QWEN2 = Family(qkv_bias=True, output_bias=False, slides=False)
QWEN3 = Family(qk_norm="per_head", slides=False, defaults={"head_dim": 128})
QWEN3_MOE = Family(qk_norm="per_head", slides=False)
QWEN_NEXT = Family(qk_norm="per_head", period=4, shared_gate=True, output_gate=True, defaults={"head_dim": 256})
DEEPSEEK = Family(router_bias=True, mtp_own_embeddings=True)
GLM_MOE = Family(output_bias=False, qk_norm="per_head", qk_norm_field="use_qk_norm", router_bias=True,
                 mtp_own_embeddings=True)
COHERE = Family(norms_per_layer=1, qk_norm="full", qk_norm_field="use_qk_norm", defaults=TIED)

FAMILIES: dict[str, Family] = {
    "llama": Family(), "mistral": Family(defaults=WINDOW), "ministral": Family(defaults=WINDOW), "ministral3": Family(),
    "mixtral": Family(expert_size="intermediate_size"), "mistral4": Family(),
    "qwen2": QWEN2, "qwen2_vl": QWEN2, "qwen2_5_vl": QWEN2, "mimo": QWEN2,
    "qwen2_moe": Family(qkv_bias="qkv_bias", output_bias=False, slides=False, shared_gate=True,
                        defaults={"qkv_bias": True, "decoder_sparse_step": 1}),
    "qwen3": QWEN3, "qwen3_vl": QWEN3, "qwen3_moe": QWEN3_MOE, "qwen3_vl_moe": QWEN3_MOE,
    "qwen3_next": QWEN_NEXT, "qwen3_5": QWEN_NEXT, "qwen3_5_moe": QWEN_NEXT,
    "gemma": Family(defaults=GEMMA),
    "gemma2": Family(norms_per_layer=4, period=2, defaults=GEMMA | WINDOW),
    "gemma3": Family(norms_per_layer=4, qk_norm="per_head", period=6, defaults=GEMMA | WINDOW | {
        "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 131072}),
    "gemma4": Family(norms_per_layer=4, qk_norm="per_head", period=6, shared_size="intermediate_size",
                     defaults=GEMMA | {"global_head_dim": 512}),
    "phi3": Family(),
    "deepseek_v2": Family(), "deepseek_v3": DEEPSEEK, "deepseek_v32": DEEPSEEK, "kimi_k2": DEEPSEEK,
    "kimi_k25": DEEPSEEK, "glm_moe_dsa": DEEPSEEK,
    "glm": Family(output_bias=False, defaults={"head_dim": 128, "attention_bias": True}),
    "glm4": Family(output_bias=False, norms_per_layer=4, defaults={"head_dim": 128, "attention_bias": True}),
    "glm4_moe": GLM_MOE,
    "gpt_oss": Family(expert_size="intermediate_size", router_bias=True, expert_bias=True, sinks="all", period=2,
                      defaults={"head_dim": 64, "attention_bias": True, "sliding_window": 128}),
    "llama4": Family(expert_size="intermediate_size", shared_size="intermediate_size",
                     defaults={"head_dim": 128, "attention_chunk_size": 8192, "interleave_moe_layer_step": 1}),
    "falcon": Family(qkv_bias="bias", output_bias="bias", mlp_bias="bias", gated_mlp=False, norm_kind="layernorm",
                     four_times=True, defaults=TIED | {"max_position_embeddings": 2048, "multi_query": True,
                                                       "parallel_attn": True, "new_decoder_architecture": False}),
    "cohere": COHERE, "cohere2": Family(norms_per_layer=1, period=4, defaults=TIED | WINDOW),
    "olmo": Family(norm_kind="none"), "olmo2": Family(qk_norm="full"),
    "olmo3": Family(qk_norm="full", period=4, defaults=WINDOW),
    "granite": Family(), "granitemoe": Family(expert_size="intermediate_size"),
    "granitemoeshared": Family(expert_size="intermediate_size"),
    "gpt2": Family(**BIASED, **LEARNT, defaults=TIED | LENGTH),
    "gpt_bigcode": Family(**BIASED, **LEARNT, defaults=TIED | LENGTH | {"multi_query": True}),
    "opt": Family(**BIASED, gated_mlp=False, norm_kind="layernorm", positions_offset=2, defaults=TIED),
    "gpt_neox": Family(**BIASED, gated_mlp=False, norm_kind="layernorm"),
    "starcoder2": Family(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias", gated_mlp=False,
                         norm_kind="layernorm", defaults=TIED | {"use_bias": True}),
    "stablelm": Family(qkv_bias="use_qkv_bias", output_bias=False, norm_kind="layernorm", qk_norm="full",
                       qk_norm_field="qk_layernorm"),
    "nemotron": Family(gated_mlp=False, norm_kind="layernorm"),
    "smollm3": Family(slides=False, defaults=TIED),
    "seed_oss": Family(output_bias="attention_out_bias", defaults={"head_dim": 128, "attention_bias": True}),
    "ernie4_5": Family(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias", defaults=TIED),
    "exaone4": Family(qk_norm="per_head", period=4),
    "minimax_m2": Family(qk_norm="full", expert_size="intermediate_size", router_bias=True),
    "mimo_v2_flash": Family(output_bias=False, router_bias=True, sinks="sliding"),
    "internlm2": Family(qkv_bias="bias", output_bias="bias"), "baichuan": Family(),
}

FOREIGN = {
    "compress_ratios": "compressed attention", "block_configs": "layers of different shapes",
    "hybrid_override_pattern": "Mamba layers", "linear_attn_config": "Kimi delta attention",
    "mamba_num_heads": "Mamba layers", "mamba_n_heads": "Mamba layers", "mamba_d_state": "Mamba layers",
    "ssm_cfg": "Mamba layers", "state_size": "Mamba layers", "ssm_state_size": "Mamba layers",
    "attn_layer_period": "Mamba layers", "conv_L_cache": "convolution layers", "rnn_state_size": "recurrent layers",
    "hidden_size_per_layer_input": "embeddings of their own in every layer", "altup_num_inputs": "alternating updates",
    "num_kv_shared_layers": "layers that share one KV cache", "sparse_attention_config": "block-sparse attention",
    "is_encoder_decoder": "an encoder beside the decoder", "cross_attention_layers": "cross attention to images",
    "zero_expert_num": "experts that do nothing", "hc_mult": "hyper-connections", "o_lora_rank": "a low-rank output",
    "attn_module_list_cfg": "layers of different shapes", "use_double_wide_mlp": "layers of different widths",
}
"""Fields that change the shape in ways not covered here: a config that sets one is refused, not guessed at."""
