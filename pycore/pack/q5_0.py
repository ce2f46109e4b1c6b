"""GGUF Q5_0: blocks of 32, one float16 scale, the fifth bits apart. 22 bytes a block, 5.5 bits a weight.

    | d d | h h h h | w16 w0 | w17 w1 | ... | w31 w15 |      bit i of the 32-bit h is the fifth bit of weight i

    weight = (code - 16) x d,   d = the value of largest magnitude, with its sign, / -16

Codes are cut(value / d + 16.5), at most 31. As ggml's reference quantiser, byte for byte.
"""

from typing import TYPE_CHECKING

from pycore.pack import blocks as block_tools
from pycore.pack import nibbles
from pycore.pack.groups import affine
from pycore.pack.packed import Packed, Part, Section, Span
from pycore.pack.q4_0 import SCALE, cut, signed_largest
from pycore.pack.values import stride_of

if TYPE_CHECKING:
    from numpy import ndarray

BLOCK, BLOCK_BYTES = 32, 22


def quantise(values: object) -> Packed:
    """`values` (any shape; the last dimension is a row) in Q5_0. Raises InputError."""
    import numpy as np

    blocks, shape = block_tools.in_blocks(values, BLOCK)
    scales = signed_largest(blocks) / np.float32(-16)
    codes = cut(blocks, scales, 16.5, 31)
    stored, scales = block_tools.half_bytes(scales.reshape(-1))
    return made(codes, scales, shape, pack(codes, stored).tobytes())


def made(codes: "ndarray", scales: "ndarray", shape: tuple[int, ...], data: bytes) -> Packed:
    """The noun from codes (n, 32) and scales (n)."""
    stride = stride_of(shape[-1], BLOCK)
    return Packed(format="q5_0", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=scales.reshape(-1, 1), data=data)


def pack(codes: "ndarray", stored: "ndarray") -> "ndarray":
    """Codes 0 to 31 (n, 32) and scale bytes (n, 2) to blocks (n, 22)."""
    import numpy as np

    out = np.empty((codes.shape[0], BLOCK_BYTES), np.uint8)
    out[:, :2], out[:, 6:] = stored, nibbles.pack_halves(codes & 15)
    out[:, 2:6] = np.packbits(codes >> 4, axis=1, bitorder="little")
    return out


def unpack(block: "ndarray") -> tuple["ndarray", "ndarray"]:
    """Blocks (n, 22) to codes 0 to 31 (n, 32) and scales (n, 1)."""
    import numpy as np

    fifth = np.unpackbits(np.ascontiguousarray(block[:, 2:6]), axis=1, bitorder="little")
    return nibbles.unpack_halves(block[:, 6:]) | fifth << 4, block_tools.halves(block, 0)


def read(data: bytes, shape: tuple[int, ...]) -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    codes, scales = unpack(block_tools.read_blocks(data, shape, BLOCK, BLOCK_BYTES, "a Q5_0 tensor"))
    return made(codes, scales, shape, bytes(data))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    return block_tools.in_shape(affine(packed.codes.reshape(-1, BLOCK), packed.scales, 16), packed)


def sections(packed: Packed) -> tuple[Section, ...]:
    """One run of blocks."""
    return (Section(name="blocks", start=0, record_bytes=BLOCK_BYTES, record_slots=BLOCK, records=packed.slots // BLOCK,
                    inside=lambda slot, record: (five_bits(slot), SCALE)),)


def five_bits(slot: int) -> Part:
    """The nibble of a slot and its fifth bit."""
    return Part("code", "code", (Span(6 + slot % 16, 4 * (slot // 16), 4), Span(2 + slot // 8, slot % 8, 1)))
