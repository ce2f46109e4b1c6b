"""A plan as other programs take it: arguments for llama.cpp's llama-quantize, a recipe for llm-compressor.

llama-quantize: `--tensor-type PATTERN=TYPE`, a regular expression searched in the tensor's name (blk.3.ffn_down.weight); the
patterns here exclude one another, so their order does not matter (llama.cpp pull request 12511).
llm-compressor: `config_groups`, whose targets are module names or "re:" and a regular expression; fields as
compressed-tensors' QuantizationArgs has them (vllm-project/llm-compressor, examples/quantization_non_uniform).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LLAMA_CPP = {"q4_0": "q4_0", "q4_1": "q4_1", "q5_0": "q5_0", "q8_0": "q8_0", "q4_k": "q4_K", "q6_k": "q6_K",
             "mxfp4": "mxfp4", "bitnet-2bit": "tq2_0", "bitnet-5in8": "tq1_0"}
TENSORS = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up",
           "down": "ffn_down"}
MODULES = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
           "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}

NEAR = ("q4_0", "q4_1", "q8_0")
"""GGUF formats that compressed-tensors has by another name: integers in groups of 32, whose scale is chosen otherwise."""

Row = tuple[int, str, str, str, tuple[tuple[str, str], ...]]  # layer, projection, configuration, format, options


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """A plan for others. Texts are '' where no choice of the plan can be said there; `..._unsaid` names the configurations
    that were left out (those projections keep what the program does by itself), `recipe_near` those that the recipe says by
    the nearest it has."""

    llama_cpp: str
    llama_cpp_unsaid: tuple[str, ...]
    recipe: str
    recipe_unsaid: tuple[str, ...]
    recipe_near: tuple[str, ...]


def commands(rows: Sequence[Row]) -> Commands:
    """What to type, and what cannot be said."""
    here, there = [row for row in rows if row[3] in LLAMA_CPP], [row for row in rows if arguments(row[3], row[4])]
    return Commands(
        llama_cpp=llama_cpp(here), llama_cpp_unsaid=left_out(rows, here), recipe=recipe(there),
        recipe_unsaid=left_out(rows, there), recipe_near=near(there))


def near(rows: Sequence[Row]) -> tuple[str, ...]:
    """Configurations that are said by the nearest that there is."""
    return tuple(dict.fromkeys(row[2] for row in rows if row[3] in NEAR))


def sayable(format_id: str, options: tuple[tuple[str, str], ...]) -> tuple[bool, bool]:
    """Whether llama.cpp and llm-compressor have a format."""
    return format_id in LLAMA_CPP, bool(arguments(format_id, options))


def left_out(rows: Sequence[Row], said: Sequence[Row]) -> tuple[str, ...]:
    """Configurations of rows that were not said."""
    known = {row[2] for row in said}
    return tuple(dict.fromkeys(row[2] for row in rows if row[2] not in known))


def llama_cpp(rows: Sequence[Row]) -> str:
    """The command line, a pattern for each projection and type; the type at its end, the commonest, is for all others."""
    if not rows:
        return ""
    counted: dict[str, int] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    for layer, projection, _, format_id, _ in rows:
        kind = LLAMA_CPP[format_id]
        counted[kind] = counted.get(kind, 0) + 1
        groups.setdefault((projection, kind), []).append(layer)
    patterns = [f"--tensor-type '{pattern(layers, projection)}={kind}'" for (projection, kind), layers in groups.items()]
    return " ".join(["llama-quantize", *patterns, "model-f16.gguf", "model-planned.gguf", max(counted, key=counted.get)])


def pattern(layers: Iterable[int], projection: str) -> str:
    """'blk\\.(0|3)\\.attn_q\\.weight'"""
    return f"blk\\.{alternatives(layers)}\\.{TENSORS[projection]}\\.weight"


def alternatives(layers: Iterable[int]) -> str:
    """'(0|3|7)', or the one number."""
    numbers = [str(one) for one in sorted(layers)]
    return numbers[0] if len(numbers) == 1 else "(" + "|".join(numbers) + ")"


def recipe(rows: Sequence[Row]) -> str:
    """The YAML recipe: a group for each way to store weights."""
    groups: dict[tuple[tuple[str, object], ...], dict[str, list[int]]] = {}
    for layer, projection, _, format_id, options in rows:
        groups.setdefault(arguments(format_id, options), {}).setdefault(projection, []).append(layer)
    if not groups:
        return ""
    remark = f"# {', '.join(near(rows))}: the nearest there, integers in groups of 32; scales are chosen otherwise"
    lines = [remark] if near(rows) else []
    lines += ["quant_stage:", "  quant_modifiers:", "    QuantizationModifier:", "      ignore: [lm_head]",
              "      config_groups:"]
    for number, (fields, projections) in enumerate(groups.items()):
        lines += [f"        group_{number}:", "          targets:"]
        lines += [f"            - 're:.*layers\\.{alternatives(layers)}\\.{MODULES[name].replace('.', chr(92) + '.')}$'"
                  for name, layers in projections.items()]
        lines.append("          weights: {" + ", ".join(f"{name}: {yaml(value)}" for name, value in fields) + "}")
    return "\n".join(lines) + "\n"


def yaml(value: object) -> str:
    """A scalar in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def arguments(format_id: str, options: tuple[tuple[str, str], ...]) -> tuple[tuple[str, object], ...]:
    """compressed-tensors' fields for a format; () where it has no such format."""
    given = dict(options)
    symmetric = given.get("symmetric", "yes") in ("yes", "True")
    if format_id == "int8":
        strategy = "tensor" if given.get("granularity") == "tensor" else "channel"
        return (("num_bits", 8), ("type", "int"), ("symmetric", symmetric), ("strategy", strategy))
    if format_id == "int4":
        return (("num_bits", 4), ("type", "int"), ("symmetric", symmetric), ("strategy", "group"),
                ("group_size", int(given.get("group", 64))))
    if format_id in NEAR:
        return (("num_bits", 8 if format_id == "q8_0" else 4), ("type", "int"), ("symmetric", format_id != "q4_1"),
                ("strategy", "group"), ("group_size", 32))
    if format_id == "fp8-e4m3" and given.get("granularity") != "none":
        strategy = "tensor" if given.get("granularity") == "tensor" else "channel"
        return (("num_bits", 8), ("type", "float"), ("symmetric", True), ("strategy", strategy))
    if format_id == "nvfp4":
        return (("num_bits", 4), ("type", "float"), ("symmetric", True), ("strategy", "tensor_group"), ("group_size", 16),
                ("scale_dtype", "torch.float8_e4m3fn"))
    if format_id == "mxfp4":
        return (("num_bits", 4), ("type", "float"), ("symmetric", True), ("strategy", "group"), ("group_size", 32),
                ("scale_dtype", "torch.uint8"))
    return ()
