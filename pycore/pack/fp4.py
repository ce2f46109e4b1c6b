"""FP4 (E2M1) codes, shared by MXFP4 and NVFP4: nearest codes, ties, and the two ways to lay them out.

    split   codes two a byte, low nibble first, row after row; then the scales (OCP, torchao, ModelOpt)
    gguf    blocks of scale and codes together, a block's first half in the low nibbles (`nibbles.pack_halves`)

The layouts come from programs that also break ties differently: split rounds them to the even code, gguf takes the first
nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, ...: the smaller magnitude, and never minus zero.
"""

from typing import TYPE_CHECKING

from pycore.pack import minifloat
from pycore.pack.minifloat import E2M1
from pycore.pack.packed import Part, Span

if TYPE_CHECKING:
    from numpy import ndarray

LAYOUTS = ("split", "gguf")
LARGEST = 6.0
VALUES = tuple(minifloat.value(E2M1, code) for code in range(16))


def encode(blocks: "ndarray", factors: "ndarray | None", layout: str) -> "ndarray":
    """Codes (uint8) of blocks, each multiplied by its factor (n, 1); beyond 6 they saturate."""
    if layout == "split":
        return minifloat.encode_rows(blocks, factors, E2M1)
    codes = minifloat.encode_rows(blocks, factors, E2M1, ties="down")
    codes[codes == 8] = 0
    return codes


def decode(codes: "ndarray") -> "ndarray":
    """Codes to float32."""
    return minifloat.decode(codes, E2M1)


def half_part(slot: int, half: int, first_byte: int) -> Part:
    """The code of a slot in a block whose first `half` codes are low nibbles."""
    return Part("code", "code", (Span(first_byte + slot % half, 4 * (slot // half), 4),), VALUES.__getitem__)
