"""GGUF Q6_K: super-blocks of 256 = 16 groups of 16, signed 8-bit scales under one float16. 210 bytes, 6.5625 bits a weight.

    | 128 bytes: low 4 bits | 64 bytes: high 2 bits | 16 bytes: scales | d d |

    halves h = 0, 1 of 128 weights, quarter q = 0..3 of 32, weight j:
      low bits    byte 64 h + 32 (q mod 2) + j, low nibble for q = 0, 1, high nibble for q = 2, 3
      high bits   byte 128 + 32 h + j, bits 2 q and 2 q + 1
      scale       byte 192 + group, two's complement

    weight = d x scale x (code - 32)

Scales come from `search.scale_only`; d is the scale of largest magnitude / -128. As ggml's reference quantiser without an
importance matrix, byte for byte.
"""

import functools
from typing import TYPE_CHECKING

from pycore.pack import blocks as block_tools
from pycore.pack import scales as scale_types
from pycore.pack import search
from pycore.pack.groups import affine
from pycore.pack.int8 import signed_byte
from pycore.pack.packed import Packed, Part, Section, Span
from pycore.pack.values import stride_of

if TYPE_CHECKING:
    from numpy import ndarray

BLOCK, BLOCK_BYTES, GROUP, MIDDLE = 256, 210, 16, 32
SUPER = Part("scale", "d", (Span(208, 0, 8), Span(209, 0, 8)), scale_types.half)


def quantise(values: object) -> Packed:
    """`values` (any shape; the last dimension is a row) in Q6_K. Raises InputError."""
    import numpy as np

    blocks, shape = block_tools.in_blocks(values, BLOCK)
    block_tools.refuse_huge(blocks, 65504.0 * 128 * MIDDLE)
    columns = np.ascontiguousarray(blocks.reshape(-1, GROUP).T)
    scales, codes = search.scale_only(columns, MIDDLE)
    steps, unit, stored, empty = eight_bits(scales)
    scale = (unit * steps).reshape(-1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        again = np.clip(np.rint(columns / scale), -MIDDLE, MIDDLE - 1) + MIDDLE
    codes = np.where(scale == 0, codes, again).astype(np.uint8).T.reshape(-1, BLOCK)
    codes[empty] = 0
    return made(codes, scale, shape, pack(codes, steps, stored).tobytes())


def eight_bits(values: "ndarray") -> tuple["ndarray", "ndarray", "ndarray", "ndarray"]:
    """Group scales (16 a block) as signed bytes of a float16: (steps (n, 16), unit (n, 1), its bytes, where all is zero)."""
    import numpy as np

    grouped = values.reshape(-1, 16)
    first = np.abs(grouped).argmax(axis=1)[:, np.newaxis]
    largest = np.take_along_axis(grouped, first, axis=1)
    empty = np.abs(largest) < np.float32(search.ALL_ZERO)
    inverse = np.float32(-128) / np.where(empty, np.float32(1), largest)
    steps = np.where(empty, 0, np.minimum(np.rint(inverse * grouped), 127)).astype(np.int8)
    unit = np.where(empty, np.float32(0), np.float32(1) / inverse)
    stored, unit = block_tools.half_bytes(unit.reshape(-1))
    return steps, unit.reshape(-1, 1), stored, empty[:, 0]


def made(codes: "ndarray", scales: "ndarray", shape: tuple[int, ...], data: bytes) -> Packed:
    """The noun from codes (n, 256) and scales of groups of 16."""
    stride = stride_of(shape[-1], BLOCK)
    return Packed(format="q6_k", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=scales.reshape(-1, 1), data=data)


def pack(codes: "ndarray", steps: "ndarray", stored: "ndarray") -> "ndarray":
    """Codes 0 to 63 (n, 256), signed scales (n, 16) and the float16 as bytes (n, 2) to blocks (n, 210)."""
    import numpy as np

    out = np.empty((codes.shape[0], BLOCK_BYTES), np.uint8)
    quarters = codes.reshape(-1, 2, 4, 32)
    low = (quarters[:, :, :2] & 15) | quarters[:, :, 2:] << 4
    high = quarters >> 4
    out[:, :128] = low.reshape(-1, 128)
    out[:, 128:192] = (high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6).reshape(-1, 64)
    out[:, 192:208], out[:, 208:] = steps.view(np.uint8), stored
    return out


def unpack(block: "ndarray") -> tuple["ndarray", "ndarray"]:
    """Blocks (n, 210) to codes 0 to 63 (n, 256) and scales of the groups (n, 16), float32."""
    import numpy as np

    codes = np.empty((block.shape[0], 2, 4, 32), np.uint8)
    low, high = block[:, :128].reshape(-1, 2, 2, 32), block[:, 128:192].reshape(-1, 2, 1, 32)
    np.bitwise_and(low, 15, out=codes[:, :, :2])
    np.right_shift(low, 4, out=codes[:, :, 2:])
    codes |= (high >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3) << 4
    steps = np.ascontiguousarray(block[:, 192:208]).view(np.int8)
    return codes.reshape(-1, BLOCK), block_tools.halves(block, 208) * steps


def read(data: bytes, shape: tuple[int, ...]) -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    codes, scales = unpack(block_tools.read_blocks(data, shape, BLOCK, BLOCK_BYTES, "a Q6_K tensor"))
    return made(codes, scales, shape, bytes(data))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    return block_tools.in_shape(affine(packed.codes.reshape(-1, GROUP), packed.scales, MIDDLE), packed)


def sections(packed: Packed) -> tuple[Section, ...]:
    """One run of super-blocks."""
    return (Section(name="blocks", start=0, record_bytes=BLOCK_BYTES, record_slots=BLOCK, records=packed.slots // BLOCK,
                    inside=lambda slot, record: parts(slot)),)


@functools.cache
def parts(slot: int) -> tuple[Part, ...]:
    """Code, group scale and d of a slot."""
    half, rest = divmod(slot, 128)
    quarter, within = divmod(rest, 32)
    low = Span(64 * half + 32 * (quarter % 2) + within, 4 * (quarter // 2), 4)
    return (Part("code", "code", (low, Span(128 + 32 * half + within, 2 * quarter, 2))),
            Part("scale", "group scale", (Span(192 + slot // GROUP, 0, 8),), signed_byte), SUPER)
