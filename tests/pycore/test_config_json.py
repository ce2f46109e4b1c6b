"""config.json files read as models: the published ones exactly, the broken ones with a message that names the fault."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore import catalog
from pycore.config_json import read_config
from pycore.config_json.families import FAMILIES, FOREIGN
from pycore.config_json.layers import shortest
from pycore.config_json.quantisation import stored_format
from pycore.errors import ConfigError
from pycore.vram.parameters import parameters

VALIDATION = Path(__file__).resolve().parents[2] / "data" / "validation"
FIXTURES = [json.loads(line) for line in (VALIDATION / "configs.jsonl").read_text(encoding="utf-8").splitlines()]
BY_REPOSITORY = {model.hub_repository: model for model in catalog.models()}
LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
         "torch_dtype": "bfloat16"}


def title(fixture):
    return f"{fixture['config']['model_type']} {fixture['name']}"


QWEN35 = next(fixture["config"] for fixture in FIXTURES if fixture["name"] == "Qwen/Qwen3.5-27B")
GEMMA4 = next(fixture["config"] for fixture in FIXTURES if fixture["name"] == "nvidia/Gemma-4-31B-IT-NVFP4")


def read(config, **changes):
    return read_config(json.dumps(config | changes))


def refused(config, **changes):
    with pytest.raises(ConfigError) as caught:
        read(config, **changes)
    return str(caught.value)


@pytest.mark.parametrize("fixture", [fixture for fixture in FIXTURES if fixture["name"] in BY_REPOSITORY],
                         ids=lambda fixture: fixture["name"])
def test_reading_a_models_config_gives_the_catalogues_model(fixture):
    read_model, known = read_config(json.dumps(fixture["config"]), fixture["name"]), BY_REPOSITORY[fixture["name"]]
    for field in ("groups", "pattern", "hidden_size", "layers", "attention_heads", "kv_heads", "head_dim", "vocabulary",
                  "tied_embeddings", "query_latent_rank", "qk_nope_dim", "gated_mlp", "qkv_bias", "output_bias",
                  "mlp_bias", "norm_kind", "norms_per_layer", "qk_norm", "learned_positions", "output_gate",
                  "hub_repository"):
        assert getattr(read_model, field) == getattr(known, field), field
    assert parameters(read_model).total == parameters(known).total
    assert parameters(read_model).active == parameters(known).active
    if fixture["source"].startswith("aiconfigurator"):  # class defaults say little of context, dtype and MTP
        assert read_model.max_context == known.max_context and read_model.experts == known.experts
        assert read_model.stored_format == known.stored_format and read_model.mtp_layers == known.mtp_layers


def test_every_architecture_that_transformers_builds_is_among_the_fixtures():
    covered = {(fixture["config"].get("text_config") or fixture["config"])["model_type"].removesuffix("_text")
               for fixture in FIXTURES}
    elsewhere = {"kimi_k25", "qwen2_vl", "qwen2_5_vl", "mimo", "internlm2", "baichuan"}  # no class, or another type's
    assert set(FAMILIES) - covered == elsewhere


@pytest.mark.parametrize("fixture", FIXTURES, ids=title)
def test_known_architectures_are_not_called_unknown(fixture):
    assert "not known here" not in read_config(json.dumps(fixture["config"])).note


def test_windows_and_kinds_of_layers():
    gemma = read({"model_type": "gemma3", "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024},
        "vision_config": {"hidden_size": 1152}})
    assert gemma.pattern == "000001" and [group.layers for group in gemma.groups] == [52, 10]
    assert gemma.groups[0].window == 1024 and gemma.groups[1].kind == "full" and gemma.tied_embeddings
    assert parameters(gemma).stored == 27_432_406_640  # published, vision tower included
    assert read(LLAMA, model_type="mistral", sliding_window=4096).groups[0].kind == "sliding"
    assert read(LLAMA, model_type="mistral", sliding_window=None).groups[0].kind == "full"
    assert read(LLAMA, model_type="mistral", sliding_window=262144).groups[0].kind == "full"  # longer than the context
    assert read(LLAMA, model_type="qwen2", sliding_window=4096, use_sliding_window=False).groups[0].kind == "full"
    mixed = read(LLAMA, model_type="qwen2", sliding_window=4096, use_sliding_window=True, max_window_layers=28)
    assert [(group.kind, group.layers) for group in mixed.groups] == [("full", 28), ("sliding", 4)]
    assert read(LLAMA, model_type="cohere2", sliding_window=4096, sliding_window_pattern=4).pattern == "0001"
    chunked = read(LLAMA, model_type="llama4", attention_chunk_size=8192, num_local_experts=16, num_experts_per_tok=1)
    assert [(group.kind, group.layers, group.window) for group in chunked.groups] == [
        ("chunked", 24, 8192), ("full", 8, None)]


def test_layers_of_different_shapes():
    gemma = read(GEMMA4)
    sliding, full = gemma.groups
    assert (sliding.layers, sliding.kv_heads, sliding.key_dim, sliding.window) == (50, 16, 256, 1024)
    assert (full.layers, full.kv_heads, full.key_dim, full.values_are_keys) == (10, 4, 512, True)
    hybrid = read(QWEN35)
    linear, full = hybrid.groups
    assert (linear.kind, linear.layers, full.kind, full.layers) == ("linear", 48, "full", 16)
    assert linear.linear.recurrent_elements == 48 * 128 * 128 and linear.elements_per_token == 0
    indexed = read(next(fixture["config"] for fixture in FIXTURES if fixture["name"] == "zai-org/GLM-5.2"))
    assert {(group.kind, group.indexer_heads) for group in indexed.groups} == {("latent", 0), ("latent", 32)}


def test_heads():
    without = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert read(without).kv_heads == 32  # multi-head attention
    assert read(LLAMA).head_dim == 128 and read(LLAMA, head_dim=64).head_dim == 64
    assert read(LLAMA, head_dim=None).head_dim == 128
    falcon = {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
              "vocab_size": 65024}
    assert read(falcon).kv_heads == 1 and parameters(read(falcon)).total == 6_921_720_704
    starcoder = {"model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_positions": 8192,
                 "vocab_size": 49152}
    assert read(starcoder).kv_heads == 1 and read(starcoder, multi_query=False).kv_heads == 48


def test_ties_follow_the_architecture_unless_the_config_says():
    assert not read(LLAMA).tied_embeddings and read(LLAMA, tie_word_embeddings=True).tied_embeddings
    assert read(LLAMA, model_type="gemma2").tied_embeddings
    inner = LLAMA | {"model_type": "qwen3_vl_text"}
    nested = {"model_type": "qwen3_vl", "tie_word_embeddings": True, "text_config": inner}
    assert read(nested).tied_embeddings
    assert not read(nested | {"tie_word_embeddings": False}).tied_embeddings


def test_unknown_architecture_is_read_by_its_fields_and_says_so():
    model = read(LLAMA, model_type="brandnew")
    assert parameters(model).total == 8_030_261_248 and "brandnew is not known here" in model.note
    message = refused({"model_type": "brandnew", "hidden_size": 4096, "num_attention_heads": 32})
    assert "missing: num_hidden_layers, vocab_size, max_position_embeddings" in message
    assert "understood: hidden_size = 4096, num_attention_heads = 32" in message


@pytest.mark.parametrize("field", sorted(FOREIGN))
def test_what_is_not_covered_is_refused_by_name(field):
    message = refused(LLAMA, **{field: 4})
    assert field in message and FOREIGN[field] in message and "hidden_size = 4096" in message
    assert read(LLAMA, **{field: None}).layers == 32  # present but off


@pytest.mark.parametrize(("config", "expected"), [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block-128x128"),
    ({"quant_method": "fp8"}, "fp8-tensor"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq-int4-g128"),
    ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "gptq-int4-g32"),
    ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "gptq-int4-channel"),
    ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "gptq-int8-g128"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "bnb-nf4-dq"),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb-int8"), ({"quant_method": "mxfp4"}, "mxfp4"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"), ({"quant_method": "bitnet"}, "bitnet-i2s"),
    ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
        "type": "float", "num_bits": 8, "strategy": "channel"}}}}, "fp8-channel"),
    ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
        "type": "int", "num_bits": 4, "strategy": "group", "group_size": 128, "symmetric": True}}}}, "w4a16-g128-sym"),
    ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
        "type": "int", "num_bits": 8, "strategy": "channel"}}}}, "int8-channel"),
    ({"quant_method": "gptq", "bits": 5}, ""), ({"quant_method": "new"}, ""), ({}, ""), ({"quant_method": ["awq"]}, ""),
])
def test_stored_formats(config, expected):
    assert stored_format(config) == expected
    assert expected == "" or catalog.by_id("formats")[expected].scope == "linear"
    model = read(LLAMA, quantization_config=config)
    assert model.stored_format == expected and ("in a way the catalogue does not hold" in model.note) is (not expected)


@pytest.mark.parametrize(("changes", "expected"), [
    ({"num_hidden_layers": -3}, "num_hidden_layers: -3 is not accepted; accepted: a whole number from 1 to 2,048"),
    ({"num_hidden_layers": 0}, "num_hidden_layers: 0"),
    ({"num_hidden_layers": 10**12}, "num_hidden_layers: 1000000000000"),
    ({"num_hidden_layers": "32"}, "num_hidden_layers: '32'"),
    ({"num_hidden_layers": True}, "num_hidden_layers: true"),
    ({"num_hidden_layers": 2.5}, "num_hidden_layers: 2.5"), ({"hidden_size": [4096]}, "hidden_size: [4096]"),
    ({"hidden_size": {"a": 1}}, 'hidden_size: {"a": 1}'), ({"hidden_size": float("nan")}, "hidden_size: NaN"),
    ({"vocab_size": float("inf")}, "vocab_size: Infinity"),
    ({"num_key_value_heads": 5}, "divides the 32 attention heads"),
    ({"num_attention_heads": 31, "num_key_value_heads": 31}, "do not divide over these heads"),
    ({"tie_word_embeddings": "yes"}, "tie_word_embeddings: 'yes' is not accepted; accepted: true or false"),
    ({"layer_types": ["full_attention"] * 31}, "a list of 32 entries"),
    ({"layer_types": ["full_attention"] * 31 + ["mamba"]}, "'mamba' layers are not known"),
    ({"layer_types": [1] * 32}, "1 layers are not known"), ({"torch_dtype": 16}, "torch_dtype: 16"),
    ({"num_experts": 8}, "missing: num_experts_per_tok"),
    ({"num_experts": 8, "num_experts_per_tok": 9}, "at most the 8 experts"),
    ({"num_experts": 8, "num_experts_per_tok": 2, "mlp_only_layers": [5]}, "irregular layers"),
    ({"num_experts": 8, "num_experts_per_tok": 2, "mlp_only_layers": [99]}, "layers from 0 to 31"),
    ({"kv_lora_rank": 512}, "missing: qk_rope_head_dim, qk_nope_head_dim, v_head_dim"),
    ({"vocab_size": None}, "missing: vocab_size"), ({"intermediate_size": None}, "missing: intermediate_size"),
])
def test_values_that_cannot_be_are_refused_with_their_field(changes, expected):
    assert expected in refused(LLAMA, **changes)


@pytest.mark.parametrize(("text", "expected"), [
    ("", "not JSON: line 1, column 1, at the end of the text"),
    ("hello", "not JSON: line 1, column 1, at 'hello'"), ("[1, 2]", "must be a JSON object"), ("null", "JSON object"),
    ('{"a": 1,\n "b": }', "not JSON: line 2, column 7, at '}'"), ('{"a": 1,}', "not JSON: line 1, column 8, at ',}'"),
    ('{"a": [1, 2,\n]}', "not JSON: line 1, column 12, at ','"),
    ('{"hidden_size": 1, "hidden_size": 2}', "'hidden_size' is given twice"),
    ('{"a": ' + "[" * 40 + "]" * 40 + "}", "nested deeper than 32 levels"), ('{"a": ' + "{" * 100_000, "nested deeper"),
    ('{"hidden_size": ' + "9" * 5000 + "}", "too many digits"),
    ('{"a": "' + "[" * 100 + '"}', "missing: hidden_size"),
    ("{}", "an architecture without model_type is not fully described"), ('{"model_type": 7}', "without model_type"),
    ('{"model_type": "<script>alert(1)</script>", "hidden_size": 1}', "<script>alert(1)</script> is not fully"),
    ('{"text_config": 5}', "is not fully described"),
])
def test_text_that_is_no_config_is_refused(text, expected):
    with pytest.raises(ConfigError) as caught:
        read_config(text)
    assert expected in str(caught.value) and caught.value.field == "config"


def test_irrelevant_nonsense_is_left_alone():
    """Published configs hold Infinity in fields that no sizing reads."""
    assert read_config("\ufeff" + json.dumps(LLAMA)).layers == 32
    assert read_config('{"time_step_limit": [0.0, Infinity], ' + json.dumps(LLAMA)[1:]).layers == 32


def test_names():
    assert read_config(json.dumps(LLAMA), "meta-llama/Llama-3.1-8B").hub_repository == "meta-llama/Llama-3.1-8B"
    named = read(LLAMA, _name_or_path="meta-llama/Llama-3.1-8B")
    assert (named.name, named.id) == ("Llama-3.1-8B", "meta-llama/Llama-3.1-8B")
    local = read(LLAMA, _name_or_path="/home/me/<b>weights</b>")
    assert local.hub_repository == "" and local.name == "llama"


@given(st.integers(1, 5), st.integers(1, 40), st.data())
def test_shortest_pattern_repeats_to_the_whole(groups, length, data):
    pattern = "".join(data.draw(st.lists(st.sampled_from("01234"[:groups]), min_size=length, max_size=length)))
    short = shortest(pattern)
    assert (short * length)[:length] == pattern and pattern.startswith(short)


JSON = st.recursive(st.none() | st.booleans() | st.integers(-10, 10**13) | st.floats() | st.text(max_size=8)
                    | st.sampled_from([0, 1, 2, 32, 128, 4096, "full_attention", "sliding_attention"]),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
                    max_leaves=6)
FIELDS = sorted({key for fixture in FIXTURES for key in (fixture["config"].get("text_config") or fixture["config"])})


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(FIXTURES), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4), st.data())
def test_any_change_to_a_config_is_read_or_refused(fixture, changes, data):
    config = json.loads(json.dumps(fixture["config"]))
    inner = config.get("text_config") or config
    for name in data.draw(st.lists(st.sampled_from(sorted(inner)), max_size=2)):
        inner.pop(name, None)
    inner.update(changes)
    try:
        model = read_config(json.dumps(config))
    except ConfigError as error:
        assert str(error) and error.field == "config"
        return
    counted = parameters(model)
    assert counted.total >= counted.active > 0 <= counted.mtp
    assert sum(group.layers for group in model.groups) == model.layers
    assert all(group.elements_per_token > 0 or group.kind == "linear" for group in model.groups)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200) | JSON.map(json.dumps) | st.sampled_from(FIXTURES).flatmap(
    lambda fixture: st.integers(1, 200).map(lambda cut: json.dumps(fixture["config"])[:-cut])))
def test_any_text_is_refused_in_words(text):
    with pytest.raises(ConfigError):
        read_config(text)
