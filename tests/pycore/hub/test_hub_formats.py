"""What published config.json files say about their weights, and the catalogue format that is meant."""

import json

import pytest

from pycore import catalog
from pycore.errors import NotKnown
from pycore.hub.formats import stored_format

CASES = [
    ({"torch_dtype": "bfloat16"}, "bf16"), ({"dtype": "float16"}, "fp16"), ({"torch_dtype": "torch.float32"}, "fp32"),
    ({"text_config": {"torch_dtype": "bfloat16"}}, "bf16"), ({}, None),
    ({"torch_dtype": "float16", "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, "awq-int4-g128"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}, "gptq-int4-g128"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": -1}}, "gptq-int4-channel"),
    ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, "fp8-block-128x128"),
    ({"quantization_config": {"quant_method": "fp8"}}, "fp8-tensor"),
    ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                              "bnb_4bit_use_double_quant": True}}, "bnb-nf4-dq"),
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "bnb-int8"),
    ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "nvfp4"),
    ({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
        "num_bits": 4, "type": "int", "group_size": 128, "symmetric": True}}}}}, "w4a16-g128-sym"),
    ({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
        "num_bits": 8, "type": "float", "strategy": "channel"}}}}}, "fp8-channel"),
    ({"quantization": {"bits": 4, "group_size": 64}}, "mlx-4bit-g64"),
]


@pytest.mark.parametrize(("config", "format_id"), CASES)
def test_stored_format(config, format_id):
    assert stored_format(json.dumps(config)) == format_id
    if format_id:
        assert catalog.weight_format(format_id).id == format_id


@pytest.mark.parametrize("config", [
    {"quantization_config": {"quant_method": "aqlm"}}, {"quantization_config": {"quant_method": "gptq", "bits": 5}},
    {"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 64]}}, {"torch_dtype": "float8_e4m3fn"},
    {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": None}}}},
    {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": 3}},
    {"quantization_config": {"bits": 4}}, {"quantization_config": {"quant_method": ["x"]}}])
def test_unknown_methods_are_refused_not_guessed(config):
    with pytest.raises(NotKnown, match="give --quant"):
        stored_format(json.dumps(config))
