"""GGUF Q8_0: blocks of 32, one float16 scale. 34 bytes a block, 8.5 bits a weight.

    | d d | w0 | w1 | ... | w31 |      two's complement

    weight = code x d,   d = largest magnitude / 127

Codes are round(value / d), halves away from zero. As ggml's reference quantiser, byte for byte.
"""

from typing import TYPE_CHECKING

from pycore.pack import blocks as block_tools
from pycore.pack import scales as scale_types
from pycore.pack.groups import affine, each, magnitude
from pycore.pack.int8 import signed_byte
from pycore.pack.packed import Packed, Part, Section, Span
from pycore.pack.q4_0 import SCALE
from pycore.pack.values import stride_of

if TYPE_CHECKING:
    from numpy import ndarray

BLOCK, BLOCK_BYTES = 32, 34


def quantise(values: object) -> Packed:
    """`values` (any shape; the last dimension is a row) in Q8_0. Raises InputError."""
    import numpy as np

    blocks, shape = block_tools.in_blocks(values, BLOCK)
    scales = magnitude(blocks) / np.float32(127)
    codes = away(blocks, scales)
    stored, scales = block_tools.half_bytes(scales.reshape(-1))
    return made(codes, scales, shape, pack(codes, stored).tobytes())


def away(blocks: "ndarray", scales: "ndarray") -> "ndarray":
    """Codes (int8): value x (1 / scale) rounded, halves away from zero: cut(2 x) - cut(x)."""
    import numpy as np

    def work(codes: "ndarray", part: "ndarray", inverse: "ndarray") -> None:
        np.multiply(part, inverse, out=codes)
        whole = np.trunc(codes)
        codes += codes
        np.trunc(codes, out=codes)
        codes -= whole

    return each(blocks, np.empty(blocks.shape, np.int8), work, scale_types.reciprocal(scales))


def made(codes: "ndarray", scales: "ndarray", shape: tuple[int, ...], data: bytes) -> Packed:
    """The noun from codes (n, 32) and scales (n)."""
    stride = stride_of(shape[-1], BLOCK)
    return Packed(format="q8_0", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=scales.reshape(-1, 1), data=data)


def pack(codes: "ndarray", stored: "ndarray") -> "ndarray":
    """Codes -128 to 127 (n, 32) and scale bytes (n, 2) to blocks (n, 34)."""
    import numpy as np

    out = np.empty((codes.shape[0], BLOCK_BYTES), np.uint8)
    out[:, :2], out[:, 2:] = stored, codes.view(np.uint8)
    return out


def unpack(block: "ndarray") -> tuple["ndarray", "ndarray"]:
    """Blocks (n, 34) to codes -128 to 127 (n, 32) and scales (n, 1)."""
    import numpy as np

    return np.ascontiguousarray(block[:, 2:]).view(np.int8), block_tools.halves(block, 0)


def read(data: bytes, shape: tuple[int, ...]) -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    codes, scales = unpack(block_tools.read_blocks(data, shape, BLOCK, BLOCK_BYTES, "a Q8_0 tensor"))
    return made(codes, scales, shape, bytes(data))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    return block_tools.in_shape(affine(packed.codes.reshape(-1, BLOCK), packed.scales), packed)


def sections(packed: Packed) -> tuple[Section, ...]:
    """One run of blocks."""
    return (Section(name="blocks", start=0, record_bytes=BLOCK_BYTES, record_slots=BLOCK, records=packed.slots // BLOCK,
                    inside=lambda slot, record: (Part("code", "code", (Span(2 + slot, 0, 8),), signed_byte), SCALE)),)
