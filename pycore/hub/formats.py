"""Which catalogue format a repository's weights are stored in, from its config.json; refused where it is not clear."""

import json
from collections.abc import Mapping
from typing import Any

from pycore.errors import NotKnown

DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
GPTQ = {(4, 128): "gptq-int4-g128", (4, 64): "gptq-int4-g64", (4, 32): "gptq-int4-g32", (4, -1): "gptq-int4-channel",
        (8, 128): "gptq-int8-g128", (3, 128): "gptq-int3-g128"}
FP8 = {"tensor": "fp8-tensor", "channel": "fp8-channel", "block": "fp8-block-128x128"}


def stored_format(config: str) -> str | None:
    """The catalogue id of the weights' format; None where the config says neither dtype nor quantisation.

    Raises NotKnown, naming the method, where the catalogue has no such format.
    """
    fields = json.loads(config)
    inner = fields.get("text_config") if isinstance(fields.get("text_config"), dict) else {}
    method = first_mapping(fields.get("quantization_config"), inner.get("quantization_config"),
                           fields.get("quantization"))
    if method:
        return quantised(method)
    dtype = next((one for one in (fields.get("torch_dtype"), fields.get("dtype"), inner.get("torch_dtype"),
                                  inner.get("dtype")) if isinstance(one, str)), None)
    if dtype is None:
        return None
    if dtype.removeprefix("torch.") not in DTYPES:
        raise NotKnown(f"config.json says dtype {dtype[:40]!r}, which the catalogue does not hold; give --quant", "quant")
    return DTYPES[dtype.removeprefix("torch.")]


def first_mapping(*candidates: Any) -> Mapping[str, Any]:
    """The first that is a JSON object, or an empty one."""
    return next((one for one in candidates if isinstance(one, dict) and one), {})


def quantised(method: Mapping[str, Any]) -> str:
    """The catalogue id of a `quantization_config`. Raises NotKnown."""
    name = str(method.get("quant_method", "mlx" if "group_size" in method and "bits" in method else "")).lower()
    found = READERS[name](method) if name in READERS else None
    if found is None:
        raise NotKnown(f"config.json says the weights are quantised by {name[:40]!r} in a way the catalogue does not "
                       "hold; give --quant", "quant")
    return found


def grouped(method: Mapping[str, Any]) -> str | None:
    """GPTQ and AWQ: bits and group size."""
    size = (method.get("bits", method.get("w_bit")), method.get("group_size", method.get("q_group_size")))
    if str(method.get("quant_method")).lower() == "awq" and size == (4, 128):
        return "awq-int4-g128"
    return GPTQ.get(size)


def bitsandbytes(method: Mapping[str, Any]) -> str | None:
    """LLM.int8() or 4-bit NF4, with or without double quantisation."""
    if method.get("load_in_8bit"):
        return "bnb-int8"
    if method.get("load_in_4bit") and method.get("bnb_4bit_quant_type", "nf4") == "nf4":
        return "bnb-nf4-dq" if method.get("bnb_4bit_use_double_quant") else "bnb-nf4"
    return None


def fp8(method: Mapping[str, Any]) -> str | None:
    """FP8 checkpoints: one scale a tensor, or DeepSeek's blocks of 128 x 128."""
    block = method.get("weight_block_size")
    return "fp8-tensor" if block is None else "fp8-block-128x128" if block == [128, 128] else None


def modelopt(method: Mapping[str, Any]) -> str | None:
    """NVIDIA's exporter names the algorithm."""
    return {"FP8": "fp8-tensor", "NVFP4": "nvfp4"}.get(str(method.get("quant_algo")).upper())


def compressed_tensors(method: Mapping[str, Any]) -> str | None:
    """The weights of the first group: bits, type, strategy, group size."""
    groups = method.get("config_groups")
    group = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        return None
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    if (bits, kind) == (8, "float"):
        return FP8.get(str(weights.get("strategy")))
    if (bits, kind) == (8, "int"):
        return "int8-channel"
    if (bits, kind) == (4, "float"):
        return {16: "nvfp4", 32: "mxfp4"}.get(size)
    if (bits, kind, size) == (4, "int", 128):
        return "w4a16-g128-sym" if weights.get("symmetric", True) else "gptq-int4-g128"
    return GPTQ.get((bits, size)) if kind == "int" else None


READERS = {
    "awq": grouped, "gptq": grouped, "bitsandbytes": bitsandbytes, "fp8": fp8, "modelopt": modelopt,
    "compressed-tensors": compressed_tensors, "fbgemm_fp8": lambda method: "fp8-channel",
    "mxfp4": lambda method: "mxfp4", "bitnet": lambda method: "bitnet-i2s",
    "hqq": lambda method: "hqq-int4-g64" if str(method.get("nbits", 4)) == "4" else None,
    "mlx": lambda method: {(4, 64): "mlx-4bit-g64", (8, 64): "mlx-8bit-g64"}.get(
        (method.get("bits"), method.get("group_size"))),
}
