"""`data/validation/configs.jsonl`: configurations of every architecture that is read, each with its parameter count as
transformers builds it (on the meta device, so no weights are made): an oracle that nobody here wrote.

    pip install torch transformers==5.24.0 aiconfigurator-core==0.12.0
    python -m runtime.measure.parameter_counts [--check]

Verbatim configs come from aiconfigurator-core's model_configs (Apache-2.0); the others are transformers' own class
defaults with a published model's values put in (as in the facts' models.json). Fields that change no shape are cut.
"""

import argparse
import json
import re
from collections.abc import Iterator
from importlib import resources

from runtime.measure.tables import jsonl_text, settle

VERBATIM = (
    "meta-llama--Meta-Llama-3.1-8B", "mistralai--Mixtral-8x7B-v0.1", "Qwen--Qwen3-0.6B", "Qwen--Qwen3-32B-FP8",
    "Qwen--Qwen3-30B-A3B", "Qwen--Qwen3-VL-2B-Instruct", "Qwen--Qwen3.5-27B", "Qwen--Qwen3.5-35B-A3B",
    "Qwen--Qwen3-VL-30B-A3B-Instruct", "deepseek-ai--DeepSeek-V3", "deepseek-ai--DeepSeek-V3.2",
    "moonshotai--Kimi-K2-Instruct", "moonshotai--Kimi-K2.5", "zai-org--GLM-5", "zai-org--GLM-5.2",
    "openai--gpt-oss-20b", "openai--gpt-oss-120b", "meta-llama--Llama-4-Scout-17B-16E-Instruct",
    "meta-llama--Llama-4-Maverick-17B-128E-Instruct",
    "google--gemma-4-26B-A4B", "nvidia--Gemma-4-31B-IT-NVFP4", "MiniMaxAI--MiniMax-M2.5", "XiaomiMiMo--MiMo-V2-Flash",
)
CLASSES = {"kimi_k2": "deepseek_v3", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe"}
"""Types whose language model is another type's class: Kimi's config names it, Qwen3-VL's layers are Qwen3's."""

DEFAULTS = (  # name, model type, values put in
    ("Qwen/Qwen2.5-7B", "qwen2", {
        "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 131072, "max_window_layers": 28}),
    ("Qwen/Qwen2.5-0.5B", "qwen2", {
        "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
        "num_key_value_heads": 2, "tie_word_embeddings": True}),
    ("mistralai/Mistral-7B-v0.1", "mistral", {"max_position_embeddings": 32768}),
    ("mistralai/Mistral-Nemo-Base-2407", "mistral", {
        "hidden_size": 5120, "num_hidden_layers": 40, "head_dim": 128, "vocab_size": 131072, "sliding_window": None}),
    ("google/gemma-2-9b", "gemma2", {
        "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16,
        "num_key_value_heads": 8}),
    ("google/gemma-3-1b-it", "gemma3_text", {
        "hidden_size": 1152, "intermediate_size": 6912, "num_attention_heads": 4, "num_key_value_heads": 1,
        "vocab_size": 262144, "sliding_window": 512, "max_position_embeddings": 32768}),
    ("google/gemma-3-27b-it", "gemma3_text", {
        "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024}),
    ("microsoft/Phi-3-mini-4k-instruct", "phi3", {"sliding_window": 2047}),
    ("microsoft/phi-4", "phi3", {
        "hidden_size": 5120, "intermediate_size": 17920, "num_hidden_layers": 40, "num_attention_heads": 40,
        "num_key_value_heads": 10, "vocab_size": 100352, "max_position_embeddings": 16384}),
    ("deepseek-ai/DeepSeek-V2-Lite", "deepseek_v2", {
        "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 27, "num_attention_heads": 16,
        "num_key_value_heads": 16, "q_lora_rank": None, "moe_intermediate_size": 1408, "num_experts_per_tok": 6,
        "first_k_dense_replace": 1, "max_position_embeddings": 163840}),
    ("zai-org/GLM-4.5-Air", "glm4_moe", {"head_dim": 128, "attention_bias": True}),
    ("zai-org/GLM-4.5", "glm4_moe", {
        "hidden_size": 5120, "intermediate_size": 12288, "num_hidden_layers": 92, "n_routed_experts": 160,
        "head_dim": 128, "moe_intermediate_size": 1536, "first_k_dense_replace": 3,
        "attention_bias": True, "use_qk_norm": True}),
    ("tiiuae/falcon-7b", "falcon", {}),
    ("tiiuae/falcon-40b", "falcon", {
        "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8,
        "new_decoder_architecture": True, "parallel_attn": True}),
    ("CohereForAI/c4ai-command-r-v01", "cohere", {}), ("CohereForAI/c4ai-command-r7b-12-2024", "cohere2", {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8}),
    ("allenai/OLMo-2-1124-7B", "olmo2", {"vocab_size": 100352, "max_position_embeddings": 4096}),
    ("ibm-granite/granite-3.3-8b-instruct", "granite", {
        "intermediate_size": 12800, "num_hidden_layers": 40, "num_key_value_heads": 8, "vocab_size": 49159,
        "max_position_embeddings": 131072, "tie_word_embeddings": True}),
    ("openai-community/gpt2", "gpt2", {}),
    ("openai-community/gpt2-xl", "gpt2", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    ("facebook/opt-125m", "opt", {}), ("class defaults", "gpt_bigcode", {"n_inner": None}),
    ("class defaults", "gpt_neox", {}), ("class defaults", "starcoder2", {}), ("class defaults", "stablelm", {}),
    ("class defaults", "stablelm", {"use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True}),
    ("class defaults", "nemotron", {"num_key_value_heads": 8}), ("class defaults", "smollm3", {}),
    ("class defaults", "seed_oss", {}),
    ("class defaults", "ernie4_5", {}), ("class defaults", "exaone4", {}), ("class defaults", "olmo", {}),
    ("class defaults", "olmo3", {}), ("class defaults", "gemma", {}), ("class defaults", "glm", {}),
    ("class defaults", "glm4", {}), ("class defaults", "qwen2_moe", {}), ("class defaults", "qwen3_next", {}),
    ("class defaults", "qwen3_moe", {"decoder_sparse_step": 2}), ("class defaults", "granitemoe", {}),
    ("class defaults", "granitemoeshared", {"shared_intermediate_size": 2048, "num_key_value_heads": 8}),
    ("class defaults", "mistral4", {}),
    ("class defaults", "ministral", {"head_dim": 128}),
    ("class defaults", "ministral3", {}), ("class defaults", "minimax_m2", {}),
    ("attention and MLP biases", "llama", {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4}),
)
_CUT = re.compile(r"token|rope|dropout|pdrop|initializer|_eps|epsilon|act|auto_map|label|scal|logit|cap|summary|beam|"
                  r"transformers_version|output_|return_|use_cache|chunk_size_feed|length_penalty|repetition|sample|"
                  r"temperature|prefix|problem_type|_offset|router_aux|aux_loss|pad_|bos_|eos_|router_jitter|min_length|"
                  r"max_length|repeat_ngram|index_(image|video|audio)|torchscript|prune|decoder_start|finetuning|forced")
KEPT = {"qk_rope_head_dim", "no_rope_layers", "experts_per_token"}


def cut(config: dict) -> dict:
    """The fields that may change a shape; of towers only that they are there."""
    found = {}
    for key, value in config.items():
        if key.endswith("_config") and key not in ("text_config", "quantization_config"):
            found[key] = {} if isinstance(value, dict) else value
        elif key == "quantization_config":
            lists = ("ignore", "modules_to_not_convert", "exclude_modules")
            found[key] = {name: setting for name, setting in value.items() if name not in lists}
        elif key in KEPT or not _CUT.search(key):
            found[key] = cut(value) if isinstance(value, dict) else value
    return found


def count(kind: str, values: dict) -> int:
    """Numbers in the language model that transformers builds: a tied head once, of buffers the learnt corrections."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.mistral4.modeling_mistral4 import Mistral4ForCausalLM

    build = Mistral4ForCausalLM._from_config if kind == "mistral4" else AutoModelForCausalLM.from_config
    plain = {key: value for key, value in values.items()
             if key not in ("model_type", "quantization_config", "auto_map")}
    with torch.device("meta"):
        model = build(CONFIG_MAPPING[kind](**plain))
    model.tie_weights()
    learnt = [buffer for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")]
    return sum(tensor.numel() for tensor in [*model.parameters(), *learnt])


def rows() -> Iterator[dict]:
    """Every fixture: name, where its values come from, its count, and the config itself."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    folder = resources.files("aiconfigurator_core") / "model_configs"
    for name in VERBATIM:
        config = json.loads((folder / f"{name}_config.json").read_text(encoding="utf-8"))
        inner = config.get("text_config") or config
        tied = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
        parameters = count(CLASSES.get(inner["model_type"], inner["model_type"]), tied | inner)
        yield {"name": name.replace("--", "/"), "source": "aiconfigurator-core 0.12.0 model_configs (Apache-2.0)",
               "parameters": parameters, "config": cut(config)}
    for name, kind, values in DEFAULTS:
        config = CONFIG_MAPPING[kind](**values).to_dict()
        parameters = count(kind, values)
        for key in ("layer_types", "sliding_window_pattern", "mlp_layer_types"):
            if key not in values:
                config.pop(key, None)  # published configs of these models leave it to the class
        source = "transformers 5.24.0 class defaults" + (f" with {', '.join(values)}" if values else "")
        yield {"name": name, "source": source, "parameters": parameters, "config": {"model_type": kind} | cut(config)}


def main() -> int:
    """Write the fixtures, or with --check compare them; the exit status is 1 when they differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    return settle({"data/validation/configs.jsonl": jsonl_text(rows())}, check=parser.parse_args().check)


if __name__ == "__main__":
    raise SystemExit(main())
