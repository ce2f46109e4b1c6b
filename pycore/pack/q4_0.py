"""GGUF Q4_0: blocks of 32, one float16 scale, no zero. 18 bytes a block, 4.5 bits a weight.

    | d d | w16 w0 | w17 w1 | ... | w31 w15 |      low nibble = first half, high nibble = second half

    weight = (code - 8) x d,   d = the value of largest magnitude, with its sign, / -8

The largest value, not the largest magnitude, sits at code 0, so the side that needs it has the extra level. Codes are
cut(value / d + 8.5), at most 15: halves round up. As ggml's reference quantiser, byte for byte.
"""

from typing import TYPE_CHECKING

from pycore.pack import blocks as block_tools
from pycore.pack import nibbles
from pycore.pack import scales as scale_types
from pycore.pack.groups import affine, each, extremes
from pycore.pack.packed import Packed, Part, Section, Span, whole
from pycore.pack.values import stride_of

if TYPE_CHECKING:
    from numpy import ndarray

BLOCK, BLOCK_BYTES = 32, 18
SCALE = whole("scale", "d", 2, scale_types.half)


def signed_largest(blocks: "ndarray") -> "ndarray":
    """The first value of largest magnitude in each block, (n, 1), with its sign."""
    import numpy as np

    low, high = extremes(blocks)
    tied = np.flatnonzero(-low == high)
    largest = np.where(-low > high, low, high)
    if tied.size:
        first = np.abs(blocks[tied]).argmax(axis=1)
        largest[tied, 0] = blocks[tied, first]
    return largest


def quantise(values: object) -> Packed:
    """`values` (any shape; the last dimension is a row) in Q4_0. Raises InputError."""
    import numpy as np

    blocks, shape = block_tools.in_blocks(values, BLOCK)
    scales = signed_largest(blocks) / np.float32(-8)
    codes = cut(blocks, scales, 8.5, 15)
    stored, scales = block_tools.half_bytes(scales.reshape(-1))
    return made(codes, scales, shape, pack(codes, stored).tobytes())


def cut(blocks: "ndarray", scales: "ndarray", shift: float, top: int) -> "ndarray":
    """Codes (uint8): value x (1 / scale) + shift, cut off to a whole number, at most `top`."""
    import numpy as np

    def work(codes: "ndarray", part: "ndarray", inverse: "ndarray") -> None:
        np.multiply(part, inverse, out=codes)
        codes += np.float32(shift)
        np.minimum(codes, np.float32(top), out=codes)

    return each(blocks, np.empty(blocks.shape, np.uint8), work, scale_types.reciprocal(scales))


def made(codes: "ndarray", scales: "ndarray", shape: tuple[int, ...], data: bytes) -> Packed:
    """The noun from codes (n, 32) and scales (n)."""
    stride = stride_of(shape[-1], BLOCK)
    return Packed(format="q4_0", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=scales.reshape(-1, 1), data=data)


def pack(codes: "ndarray", stored: "ndarray") -> "ndarray":
    """Codes (n, 32) and scale bytes (n, 2) to blocks (n, 18)."""
    import numpy as np

    out = np.empty((codes.shape[0], BLOCK_BYTES), np.uint8)
    out[:, :2], out[:, 2:] = stored, nibbles.pack_halves(codes)
    return out


def unpack(block: "ndarray") -> tuple["ndarray", "ndarray"]:
    """Blocks (n, 18) to codes (n, 32) and scales (n, 1)."""
    return nibbles.unpack_halves(block[:, 2:]), block_tools.halves(block, 0)


def read(data: bytes, shape: tuple[int, ...]) -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    codes, scales = unpack(block_tools.read_blocks(data, shape, BLOCK, BLOCK_BYTES, "a Q4_0 tensor"))
    return made(codes, scales, shape, bytes(data))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    return block_tools.in_shape(affine(packed.codes.reshape(-1, BLOCK), packed.scales, 8), packed)


def sections(packed: Packed) -> tuple[Section, ...]:
    """One run of blocks."""
    return (Section(name="blocks", start=0, record_bytes=BLOCK_BYTES, record_slots=BLOCK, records=packed.slots // BLOCK,
                    inside=lambda slot, record: (nibble(slot, 2), SCALE)),)


def nibble(slot: int, first_byte: int) -> Part:
    """The code of a slot in a block whose first half lies in the low nibbles."""
    return Part("code", "code", (Span(first_byte + slot % 16, 4 * (slot // 16), 4),))
