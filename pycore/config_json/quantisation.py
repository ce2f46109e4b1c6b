"""The catalogue's number format that a config's `quantization_config` describes."""

from collections.abc import Mapping

GROUPS = {128: "gptq-int4-g128", 64: "gptq-int4-g64", 32: "gptq-int4-g32", -1: "gptq-int4-channel"}
FLOATS = {"tensor": "fp8-tensor", "channel": "fp8-channel", "block": "fp8-block-128x128"}


def stored_format(config: Mapping[str, object]) -> str:
    """The catalogue id, or '' where the method or its settings are none that the catalogue holds."""
    method = str(config.get("quant_method") or "").lower().replace("_", "-")
    readers = {"fp8": fp8, "awq": awq, "gptq": gptq, "bitsandbytes": bitsandbytes, "modelopt": modelopt,
               "compressed-tensors": compressed}
    fixed = {"mxfp4": "mxfp4", "fbgemm-fp8": "fp8-channel", "bitnet": "bitnet-i2s"}
    return readers[method](config) if method in readers else fixed.get(method, "")


def fp8(config: Mapping[str, object]) -> str:
    """DeepSeek's block scales, else one scale a tensor."""
    block = config.get("weight_block_size")
    return "fp8-tensor" if not block else "fp8-block-128x128" if block == [128, 128] else ""


def awq(config: Mapping[str, object]) -> str:
    """Four bits in groups; groups of 128 are AWQ's own."""
    if config.get("bits", config.get("w_bit")) != 4:
        return ""
    size = config.get("group_size", config.get("q_group_size", 128))
    return "awq-int4-g128" if size == 128 else GROUPS.get(size, "") if isinstance(size, int) else ""


def gptq(config: Mapping[str, object]) -> str:
    """Three, four or eight bits in groups."""
    bits, size = config.get("bits"), config.get("group_size", 128)
    if bits == 4 and isinstance(size, int):
        return GROUPS.get(size, "")
    return {(8, 128): "gptq-int8-g128", (3, 128): "gptq-int3-g128"}.get((bits, size), "") if is_pair(bits, size) else ""


def is_pair(*values: object) -> bool:
    """Whether all are whole numbers, so that they can be looked up."""
    return all(isinstance(value, int) for value in values)


def bitsandbytes(config: Mapping[str, object]) -> str:
    """LLM.int8() or NF4, with or without double quantisation."""
    if config.get("load_in_8bit"):
        return "bnb-int8"
    if config.get("load_in_4bit") and config.get("bnb_4bit_quant_type", "nf4") == "nf4":
        return "bnb-nf4-dq" if config.get("bnb_4bit_use_double_quant") else "bnb-nf4"
    return ""


def modelopt(config: Mapping[str, object]) -> str:
    """NVIDIA Model Optimizer's algorithms."""
    nested = config.get("quantization")
    algorithm = config.get("quant_algo") or (nested.get("quant_algo") if isinstance(nested, Mapping) else "")
    return {"NVFP4": "nvfp4", "FP8": "fp8-tensor", "MXFP8": "mxfp8"}.get(str(algorithm).upper(), "")


def compressed(config: Mapping[str, object]) -> str:
    """compressed-tensors: the weights of the first group of layers."""
    groups = config.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return ""
    kind, bits, strategy, size = (weights.get(name) for name in ("type", "num_bits", "strategy", "group_size"))
    if (kind, bits) == ("float", 8):
        return FLOATS.get(str(strategy), "")
    if (kind, bits) == ("float", 4):
        return {16: "nvfp4", 32: "mxfp4"}.get(size, "") if isinstance(size, int) else ""
    if (kind, bits, strategy) == ("int", 8, "channel"):
        return "int8-channel"
    if (kind, bits, size) == ("int", 4, 128):
        return "w4a16-g128-sym" if weights.get("symmetric", True) else "awq-int4-g128"
    return ""
