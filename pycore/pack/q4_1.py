"""GGUF Q4_1: blocks of 32, a float16 scale and a float16 minimum. 20 bytes a block, 5 bits a weight.

    | d d | m m | w16 w0 | w17 w1 | ... | w31 w15 |      low nibble = first half, high nibble = second half

    weight = code x d + m,   m = the smallest value,   d = (largest - smallest) / 15

Codes are cut((value - m) / d + 0.5), at most 15. As ggml's reference quantiser, byte for byte.
"""

from typing import TYPE_CHECKING

from pycore.pack import blocks as block_tools
from pycore.pack import nibbles
from pycore.pack import scales as scale_types
from pycore.pack.groups import affine, each, extremes
from pycore.pack.packed import Packed, Part, Section, Span, whole
from pycore.pack.q4_0 import nibble
from pycore.pack.values import stride_of

if TYPE_CHECKING:
    from numpy import ndarray

BLOCK, BLOCK_BYTES = 32, 20
PARTS = (whole("scale", "d", 2, scale_types.half), Part("zero", "m", (Span(2, 0, 8), Span(3, 0, 8)), scale_types.half))


def quantise(values: object) -> Packed:
    """`values` (any shape; the last dimension is a row) in Q4_1. Raises InputError."""
    import numpy as np

    blocks, shape = block_tools.in_blocks(values, BLOCK)
    low, high = extremes(blocks)
    with np.errstate(over="ignore", invalid="ignore"):  # a range that float32 cannot hold is refused below, as a scale
        scales = (high - low) / np.float32(15)
        codes = cut(blocks, low, scales)
    (stored, scales), (stored_low, low) = (block_tools.half_bytes(one.reshape(-1)) for one in (scales, low))
    return made(codes, scales, low, shape, pack(codes, stored, stored_low).tobytes())


def cut(blocks: "ndarray", low: "ndarray", scales: "ndarray") -> "ndarray":
    """Codes (uint8): (value - low) x (1 / scale) + 0.5, cut off to a whole number, at most 15."""
    import numpy as np

    def work(codes: "ndarray", part: "ndarray", least: "ndarray", inverse: "ndarray") -> None:
        np.subtract(part, least, out=codes)
        codes *= inverse
        codes += np.float32(0.5)
        np.minimum(codes, np.float32(15), out=codes)

    return each(blocks, np.empty(blocks.shape, np.uint8), work, low, scale_types.reciprocal(scales))


def made(codes: "ndarray", scales: "ndarray", low: "ndarray", shape: tuple[int, ...], data: bytes) -> Packed:
    """The noun from codes (n, 32), scales (n) and minima (n); `zeros` holds the minima, added after scaling."""
    stride = stride_of(shape[-1], BLOCK)
    return Packed(format="q4_1", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=scales.reshape(-1, 1), zeros=low.reshape(-1, 1), data=data)


def pack(codes: "ndarray", stored: "ndarray", stored_low: "ndarray") -> "ndarray":
    """Codes (n, 32), bytes of scales and minima (n, 2) to blocks (n, 20)."""
    import numpy as np

    out = np.empty((codes.shape[0], BLOCK_BYTES), np.uint8)
    out[:, :2], out[:, 2:4], out[:, 4:] = stored, stored_low, nibbles.pack_halves(codes)
    return out


def unpack(block: "ndarray") -> tuple["ndarray", "ndarray", "ndarray"]:
    """Blocks (n, 20) to codes (n, 32), scales (n, 1) and minima (n, 1)."""
    return nibbles.unpack_halves(block[:, 4:]), block_tools.halves(block, 0), block_tools.halves(block, 2)


def read(data: bytes, shape: tuple[int, ...]) -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    codes, scales, low = unpack(block_tools.read_blocks(data, shape, BLOCK, BLOCK_BYTES, "a Q4_1 tensor"))
    return made(codes, scales, low, shape, bytes(data))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    values = affine(packed.codes.reshape(-1, BLOCK), packed.scales, after=packed.zeros)
    return block_tools.in_shape(values, packed)


def sections(packed: Packed) -> tuple[Section, ...]:
    """One run of blocks."""
    return (Section(name="blocks", start=0, record_bytes=BLOCK_BYTES, record_slots=BLOCK, records=packed.slots // BLOCK,
                    inside=lambda slot, record: (nibble(slot, 4), *PARTS)),)
