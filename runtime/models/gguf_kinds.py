"""The kinds of tensor in a GGUF file: which we read, how large each is, and how its bytes become numbers.

Numbers of the kinds are ggml's. Block formats are those of `pycore/pack` and two more of 5 bits (`gguf_fives`); the three
plain ones are read here.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.errors import SourceError
from pycore.pack import formats
from runtime.models import gguf_fives

if TYPE_CHECKING:
    from numpy import ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of tensor: `block` weights take `size` bytes. `format`: its id in `pycore.pack.formats`, "" for others."""

    name: str
    block: int
    size: int
    format: str = ""
    options: tuple[tuple[str, object], ...] = ()

    def bytes_of(self, elements: int) -> int:
        """How many bytes that many weights take; `elements` is a multiple of the block."""
        return elements // self.block * self.size


FIVES = {"Q5_1": gguf_fives.q5_1, "Q5_K": gguf_fives.q5_k}
GGUF_LAYOUT = (("layout", "gguf"),)
KINDS = {
    0: Kind(name="F32", block=1, size=4),
    1: Kind(name="F16", block=1, size=2),
    30: Kind(name="BF16", block=1, size=2),
    2: Kind(name="Q4_0", block=32, size=18, format="q4_0"),
    3: Kind(name="Q4_1", block=32, size=20, format="q4_1"),
    6: Kind(name="Q5_0", block=32, size=22, format="q5_0"),
    7: Kind(name="Q5_1", block=32, size=24),
    8: Kind(name="Q8_0", block=32, size=34, format="q8_0"),
    12: Kind(name="Q4_K", block=256, size=144, format="q4_k"),
    13: Kind(name="Q5_K", block=256, size=176),
    14: Kind(name="Q6_K", block=256, size=210, format="q6_k"),
    34: Kind(name="TQ1_0", block=256, size=54, format="bitnet-5in8", options=GGUF_LAYOUT),
    35: Kind(name="TQ2_0", block=256, size=66, format="bitnet-2bit", options=GGUF_LAYOUT),
    39: Kind(name="MXFP4", block=32, size=17, format="mxfp4", options=GGUF_LAYOUT),
}
OTHERS = {9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
          19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64",
          28: "F64", 29: "IQ1_M", 40: "NVFP4", 41: "Q1_0"}


def kind_of(number: int, tensor: str, source: str) -> Kind:
    """The kind with that number. Raises SourceError naming it, and what is read."""
    if number not in KINDS:
        shown = OTHERS.get(number, f"number {number}, which no version of the format that we know defines")
        raise SourceError(source, f"tensor {tensor!r} is of kind {shown}; read are "
                                  + ", ".join(kind.name for kind in KINDS.values()))
    return KINDS[number]


def numbers(kind: Kind, data: bytes, shape: tuple[int, ...]) -> "ndarray":
    """The tensor as float32, in its shape (the last dimension is a row)."""
    import numpy as np

    if kind.format:
        return formats.dequantise(formats.read(kind.format, data, shape, **dict(kind.options)))
    if kind.name in FIVES:
        return FIVES[kind.name](data, shape)
    if kind.name == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(data, "<f4" if kind.name == "F32" else "<f2").astype(np.float32).reshape(shape)
