"""Which type llama.cpp's quantiser gives each tensor of a file, so that a file's size is computed and not looked up.

A file type such as Q4_K_M is a mix: a base type, and exceptions by tensor, layer and model. The rules of llama.cpp's
`llama_tensor_get_type` (src/llama-quant.cpp, MIT) are re-expressed here as data: for every file type its base, and for
each role of a tensor the exception. The order of precedence is the quantiser's: fixed roles, embedding and head, then
the role's rule, then the two special models (80 layers; 8 experts), at last the fall-back for rows that do not divide.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.nouns import Model
from pycore.vram.parameters import Matrix, matrices

BLOCKS = {  # type -> (numbers, bytes) of a block: gguf constants.py GGML_QUANT_SIZES
    "f32": (1, 4), "f16": (1, 2), "bf16": (1, 2), "q8_0": (32, 34), "q5_1": (32, 24), "q5_0": (32, 22),
    "q4_1": (32, 20), "q4_0": (32, 18), "q6_k": (256, 210), "q5_k": (256, 176), "q4_k": (256, 144), "q3_k": (256, 110),
    "q2_k": (256, 84), "iq4_nl": (32, 18), "iq4_xs": (256, 136), "iq3_s": (256, 110), "iq3_xxs": (256, 98),
    "iq2_s": (256, 82), "iq2_xs": (256, 74), "iq2_xxs": (256, 66), "iq1_m": (256, 56), "iq1_s": (256, 50),
    "tq2_0": (256, 66), "tq1_0": (256, 54), "mxfp4": (32, 17), "nvfp4": (64, 36), "q1_0": (128, 18)}

BASE = {"q2_k_s": "q2_k", "q3_k_s": "q3_k", "q3_k_m": "q3_k", "q3_k_l": "q3_k", "q4_k_s": "q4_k", "q4_k_m": "q4_k",
        "q5_k_s": "q5_k", "q5_k_m": "q5_k", "iq3_m": "iq3_s", "iq3_xs": "iq3_s", "iq2_m": "iq2_s", "iq2_s": "iq2_xs"}
"""The base type where the file type's name is not the tensor type's."""

FALLBACK = {"q6_k": "q8_0", "q5_k": "q5_1", "q4_k": "q5_0", "q3_k": "q4_0", "q2_k": "q4_0", "tq1_0": "q4_0",
            "tq2_0": "q4_0"} | dict.fromkeys(
                ("iq4_xs", "iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_m", "iq1_s"), "iq4_nl")
"""What replaces a type of 256 numbers a block where a row is not a multiple of 256."""

TINY = ("iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq1_s", "iq1_m")  # file types under three bits have rules of their own
IMATRIX = TINY + ("iq3_xxs", "iq3_xs", "iq3_s", "iq3_m", "iq4_xs", "iq4_nl", "q2_k_s")  # made with an importance matrix
FULL = frozenset(("f32", "f16", "bf16"))
FIXED = frozenset(("positions", "linear_convolution", "indexer_q", "indexer_k"))  # never quantised


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A file type asked of one model."""

    kind: str  # "q4_k_m"
    imatrix: bool
    heads_per_kv: int  # query heads over KV heads
    layers: int
    experts: int
    family: str  # llama.cpp's architecture where it matters: "falcon", "fused" (one qkv matrix), "" else

    @property
    def base(self) -> str:
        return BASE.get(self.kind, self.kind)

    @property
    def seventy(self) -> bool:
        """llama.cpp's type 70B: 80 layers (Llama 70B, Qwen 72B), whose value matrix is small for its heads."""
        return self.layers == 80 and self.experts == 0 and self.heads_per_kv > 1


def mix(model: Model, kind: str, imatrix: bool | None = None) -> Mix:
    """The question of a file type; `imatrix` None takes the customary way of making that type. Raises InputError."""
    kind = kind.lower().removeprefix("gguf-file-")
    if BASE.get(kind, kind) not in BLOCKS:
        raise InputError("quant", kind, "accepted: a GGUF file type such as " + ", ".join(sorted(BASE)))
    return Mix(kind=kind, imatrix=kind in IMATRIX if imatrix is None else imatrix,
               heads_per_kv=model.attention_heads // max(1, model.kv_heads), layers=model.layers,
               experts=model.experts.count if model.mixture else 0, family=family(model))


def family(model: Model) -> str:
    """Architectures that llama.cpp treats apart: Falcon's rules, and those that store queries, keys, values as one."""
    if "falcon" in model.id.lower():
        return "falcon"
    fused = ("phi-3", "phi-3.5", "phi-4", "gpt2")
    return "fused" if any(name in model.id.lower() for name in fused) else ""


def more_bits(layer: int, layers: int) -> bool:
    """The first and last eighth of the layers, and every third between: where Q4_K_M and Q5_K_M spend more."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def tensor_type(question: Mix, role: str, layer: int, columns: int) -> str:
    """The type of one tensor, fall-back included."""
    return fitting(chosen(question, role, layer, columns), columns)


def fitting(kind: str, columns: int) -> str:
    """The type itself, or what replaces it where a row of `columns` does not divide into its blocks."""
    if columns % BLOCKS[kind][0] == 0:
        return kind
    second = FALLBACK.get(kind, "f16")
    return second if columns % BLOCKS[second][0] == 0 else "f16"


def chosen(question: Mix, role: str, layer: int, columns: int) -> str:
    """The type before the fall-back."""
    base = question.base
    if base in FULL:
        return base
    if role in ("head", "tied"):
        if question.family == "falcon" or columns % BLOCKS[base][0]:
            return "q8_0"
        if question.kind in TINY or question.kind == "iq3_xxs":
            return "q5_k"
        return base if base == "q8_0" else "q6_k"
    if role == "embedding":
        return embedding_type(question)
    rule = RULES.get(role.removeprefix("expert_").removeprefix("shared_"))
    if rule is None:
        return base
    return (TINY_RULES.get(rule, keep) if question.kind in TINY else rule)(question, layer)


def embedding_type(question: Mix) -> str:
    """The token embedding where it is not also the head."""
    if question.kind in ("iq2_xxs", "iq2_xs", "iq1_s", "iq1_m"):
        return "q2_k"
    if question.kind in ("iq2_s", "iq2_m", "iq3_xxs"):
        return "iq3_s"
    return "q4_k" if question.kind in ("tq1_0", "tq2_0") else question.base


def keep(question: Mix, layer: int) -> str:
    """The base type."""
    return question.base


def value_type(question: Mix, layer: int) -> str:
    """attn_v: small where heads share it, so it is given more bits."""
    kind, shared = value_rule(question, layer), question.experts == 8
    if question.seventy and kind in ("q3_k", "q4_k"):
        kind = "q5_k"
    return "q8_0" if shared else kind


def value_rule(question: Mix, layer: int) -> str:
    """attn_v before the special models."""
    kind, many = question.kind, question.heads_per_kv >= 4
    if kind in ("q4_k_m", "q5_k_m"):
        return "q6_k" if more_bits(layer, question.layers) else question.base
    fixed = {"q3_k_l": "q5_k", "iq3_m": "q4_k", "q2_k": "q4_k" if many else "q3_k",
             "q3_k_m": "q5_k" if layer < 2 else "q4_k", "q4_k_s": "q5_k" if layer < 4 else "q4_k"}
    if kind in fixed:
        return fixed[kind]
    if many and kind in ("q2_k_s", "iq3_xs", "iq3_s", "iq3_xxs"):
        return "q4_k"
    if many and kind in ("iq4_nl", "iq4_xs"):
        return "q5_k"
    return "iq3_s" if kind == "iq3_xxs" and not question.imatrix else question.base


def query_type(question: Mix, layer: int) -> str:
    """attn_q: the two mixes around three bits save here."""
    return {"iq3_xs": "iq3_xxs", "iq3_xxs": "iq2_s"}.get(question.kind, question.base)


def key_type(question: Mix, layer: int) -> str:
    """attn_k: as the queries, but 8 bits with 8 experts."""
    return "q8_0" if question.experts == 8 else query_type(question, layer)


def output_type(question: Mix, layer: int) -> str:
    """attn_output."""
    if question.family == "falcon":
        return "q4_k" if question.kind == "q3_k_l" else question.base
    if question.experts == 8:
        raised = ("q2_k", "iq3_xs", "iq3_xxs", "q3_k_s", "q3_k_m", "iq4_nl", "q4_k_s", "q4_k_m", "iq3_s", "iq3_m",
                  "iq4_xs")
        return "q5_k" if question.kind in raised else question.base
    return {"q2_k": "q3_k", "iq3_xxs": "iq3_s", "q3_k_m": "q4_k", "q3_k_l": "q5_k", "iq3_m": "q4_k"}.get(
        question.kind, question.base)


def fused_type(question: Mix, layer: int) -> str:
    """attn_qkv, where the three are one matrix."""
    return {"q3_k_m": "q4_k", "q3_k_l": "q4_k", "iq3_m": "q4_k", "q4_k_m": "q5_k", "q5_k_m": "q6_k"}.get(
        question.kind, question.base)


def down_type(question: Mix, layer: int) -> str:
    """ffn_down: the most sensitive large matrix."""
    kind, layers, falcon = question.kind, question.layers, question.family == "falcon"
    early, extra = layer < layers // 8, more_bits(layer, layers)
    if kind == "q3_k_m":
        return "q5_k" if layer < layers // 16 else "q4_k" if not falcon or extra else "q3_k"
    if kind == "q4_k_m" and falcon:
        return "q6_k" if layer < layers // 16 else "q5_k" if extra else "q4_k"
    if kind in ("q4_k_m", "q5_k_m"):
        return "q6_k" if extra else question.base
    if kind == "q2_k":
        return "q3_k"
    if kind == "q3_k_l":
        return "q4_k" if falcon else "q5_k"
    if kind == "iq3_xxs" and not question.imatrix:
        return "q4_k" if early else "q3_k"
    if kind == "iq3_m" and question.experts == 8 and extra:
        return "q4_k"
    raised = {"q2_k_s": "q4_k", "iq3_m": "q4_k", "q4_k_s": "q4_k" if falcon else "q5_k"}
    if question.imatrix:
        raised |= {"q4_0": "q4_1", "q5_0": "q5_1"}
    else:
        raised |= {"iq4_nl": "q5_k", "iq4_xs": "q5_k"}
    return raised.get(kind, question.base) if early else question.base


def gate_type(question: Mix, layer: int) -> str:
    """ffn_gate and ffn_up: IQ3_XS saves in the middle layers."""
    middle = question.layers // 8 <= layer < 7 * question.layers // 8
    return "iq3_xxs" if question.kind == "iq3_xs" and middle else question.base


def tiny_value(question: Mix, layer: int) -> str:
    """attn_v under three bits."""
    if question.heads_per_kv >= 4 or question.experts >= 4:
        return "q4_k"
    return "iq3_s" if question.kind in ("iq2_s", "iq2_m") else "q2_k"


def tiny_key(question: Mix, layer: int) -> str:
    """attn_k under three bits."""
    return "q4_k" if question.experts == 8 else question.base


def tiny_down(question: Mix, layer: int) -> str:
    """ffn_down under three bits."""
    if layer < question.layers // 8:
        return "iq3_s" if question.kind in ("iq2_s", "iq2_m") else "q2_k"
    return question.base


def tiny_output(question: Mix, layer: int) -> str:
    """attn_output under three bits."""
    if question.experts == 8:
        return "q5_k"
    raised = {"iq1_s": "iq2_xxs", "iq1_m": "iq2_xxs", "iq2_s": "iq3_s", "iq2_m": "iq3_s"}
    return raised.get(question.kind, question.base)


RULES = {"v": value_type, "q": query_type, "k": key_type, "o": output_type, "qkv": fused_type, "linear_qkv": fused_type,
         "down": down_type, "gate": gate_type, "up": gate_type}
TINY_RULES = {value_type: tiny_value, key_type: tiny_key, down_type: tiny_down, output_type: tiny_output}


def tensor_bytes(rows: int, columns: int, kind: str) -> int:
    """Bytes of a rows x columns tensor; whole blocks a row."""
    numbers, size = BLOCKS[kind]
    return rows * (columns // numbers) * size


def storage(matrix: Matrix, question: Mix, tied: bool) -> Iterator[tuple[int, str]]:
    """(layer, type) of every place where the matrix is stored; layer -1 for what belongs to no layer.

    Vectors (norms, biases), routers and convolutions stay F32.
    """
    role = "tied" if tied and matrix.role == "embedding" else matrix.role
    if question.family == "fused" and role in ("q", "k", "v"):
        role = "qkv"
    for layer in matrix.layers or (-1,):
        plain = matrix.kind in ("vector", "convolution") or role in FIXED or matrix.component == "router"
        yield layer, "f32" if plain else tensor_type(question, role, layer, matrix.columns)


@functools.lru_cache(maxsize=4096)
def layer_bytes(model: Model, question: Mix) -> tuple[tuple[str, int, int, int], ...]:
    """(role, layer, bytes of all copies of that matrix in the layer, copies), layer -1 for the model's own."""
    rows = []
    for matrix in matrices(model):
        for layer, kind in storage(matrix, question, model.tied_embeddings):
            size = tensor_bytes(matrix.rows, matrix.columns, kind)
            rows.append((matrix.role, layer, matrix.each * size, matrix.each))
    return tuple(rows)


def file_bytes(model: Model, kind: str, imatrix: bool | None = None) -> int:
    """Bytes of all tensors of a file of that type (its header, some MB, comes on top)."""
    return sum(size for _, _, size, _ in layer_bytes(model, mix(model, kind, imatrix)))


def bits_per_weight(model: Model, kind: str, imatrix: bool | None = None) -> float:
    """The file's bits per stored number, as llama.cpp prints it."""
    return 8 * file_bytes(model, kind, imatrix) / sum(matrix.total for matrix in matrices(model))
