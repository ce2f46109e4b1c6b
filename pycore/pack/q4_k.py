"""GGUF Q4_K: super-blocks of 256 = 8 groups of 32, 6-bit scales and minima under two float16. 144 bytes, 4.5 bits a weight.

    | d d | m m | 12 bytes of scales and minima | 128 bytes of codes |

    scales and minima: s0..s7, n0..n7 of 6 bits         codes: 4 runs of 32 bytes, run r holds groups 2r and 2r + 1
      byte 0..3    | s4..7 high 2 | s0..s3 |              byte j of run r  | group 2r+1, weight j | group 2r, weight j |
      byte 4..7    | n4..7 high 2 | n0..n3 |
      byte 8..11   | n4..7 low 4  | s4..7 low 4 |

    weight = d x s x code - m x n

Scales and minima come from `search.scale_and_minimum`; d and m are the largest of each / 63. As ggml's reference
quantiser without an importance matrix, byte for byte.
"""

import functools
from typing import TYPE_CHECKING

from pycore.pack import blocks as block_tools
from pycore.pack import scales as scale_types
from pycore.pack import search
from pycore.pack.groups import affine
from pycore.pack.packed import Packed, Part, Section, Span
from pycore.pack.values import stride_of

if TYPE_CHECKING:
    from numpy import ndarray

BLOCK, BLOCK_BYTES, GROUP = 256, 144, 32
SUPER = (Part("scale", "d", (Span(0, 0, 8), Span(1, 0, 8)), scale_types.half),
         Part("zero", "dmin", (Span(2, 0, 8), Span(3, 0, 8)), scale_types.half))


def quantise(values: object) -> Packed:
    """`values` (any shape; the last dimension is a row) in Q4_K. Raises InputError."""
    import numpy as np

    blocks, shape = block_tools.in_blocks(values, BLOCK)
    block_tools.refuse_huge(blocks, 65504.0 * 63 * 15)
    columns = np.ascontiguousarray(blocks.reshape(-1, GROUP).T)
    scales, minima, codes = search.scale_and_minimum(columns, search.importance(columns), 15)
    (steps, d, stored), (low_steps, dmin, stored_low) = six_bits(scales), six_bits(minima)
    scale, low = (d * steps).reshape(-1), (dmin * low_steps).reshape(-1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        again = np.clip(np.rint((columns + low) / scale), 0, 15)
    codes = np.where(scale == 0, codes, again).astype(np.uint8).T.reshape(-1, BLOCK)
    data = pack(codes, steps, low_steps, stored, stored_low)
    return made(codes, scale, low, shape, data.tobytes())


def six_bits(values: "ndarray") -> tuple["ndarray", "ndarray", "ndarray"]:
    """Group values (8 a block) as 6-bit steps of a float16: (steps (n, 8), float16 as float32 (n, 1), its bytes (n, 2))."""
    import numpy as np

    grouped = values.reshape(-1, 8)
    largest = np.maximum(grouped.max(axis=1, keepdims=True), 0)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(63) / largest
    inverse = np.where(np.isfinite(inverse), inverse, np.float32(0))
    steps = np.minimum(np.rint(inverse * grouped), 63).astype(np.uint8)
    stored, unit = block_tools.half_bytes((largest / np.float32(63)).reshape(-1))
    return steps, unit.reshape(-1, 1), stored


def made(codes: "ndarray", scales: "ndarray", low: "ndarray", shape: tuple[int, ...], data: bytes) -> Packed:
    """The noun from codes (n, 256), and scales and minima of groups of 32; `zeros` holds the minima, subtracted."""
    stride = stride_of(shape[-1], BLOCK)
    return Packed(format="q4_k", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=scales.reshape(-1, 1), zeros=low.reshape(-1, 1), data=data)


def pack(codes: "ndarray", steps: "ndarray", low_steps: "ndarray", stored: "ndarray", stored_low: "ndarray") -> "ndarray":
    """Codes (n, 256), 6-bit steps (n, 8) twice and the two float16 as bytes (n, 2) to blocks (n, 144)."""
    import numpy as np

    out = np.empty((codes.shape[0], BLOCK_BYTES), np.uint8)
    out[:, 0:2], out[:, 2:4] = stored, stored_low
    out[:, 4:8] = steps[:, :4] | steps[:, 4:] >> 4 << 6
    out[:, 8:12] = low_steps[:, :4] | low_steps[:, 4:] >> 4 << 6
    out[:, 12:16] = steps[:, 4:] & 15 | (low_steps[:, 4:] & 15) << 4
    runs = codes.reshape(-1, 4, 2, GROUP)
    out[:, 16:] = (runs[:, :, 0] | runs[:, :, 1] << 4).reshape(-1, BLOCK // 2)
    return out


def unpack(block: "ndarray") -> tuple["ndarray", "ndarray", "ndarray"]:
    """Blocks (n, 144) to codes (n, 256), and scales and minima of the groups (n, 8), float32."""
    import numpy as np

    codes = np.empty((block.shape[0], 4, 2, GROUP), np.uint8)
    nibbles = block[:, 16:].reshape(-1, 4, GROUP)
    np.bitwise_and(nibbles, 15, out=codes[:, :, 0])
    np.right_shift(nibbles, 4, out=codes[:, :, 1])
    first, second, third = block[:, 4:8], block[:, 8:12], block[:, 12:16]
    steps = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    low_steps = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    return codes.reshape(-1, BLOCK), block_tools.halves(block, 0) * steps, block_tools.halves(block, 2) * low_steps


def read(data: bytes, shape: tuple[int, ...]) -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    codes, scales, low = unpack(block_tools.read_blocks(data, shape, BLOCK, BLOCK_BYTES, "a Q4_K tensor"))
    return made(codes, scales, low, shape, bytes(data))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    values = affine(packed.codes.reshape(-1, GROUP), packed.scales, after=-packed.zeros)
    return block_tools.in_shape(values, packed)


def sections(packed: Packed) -> tuple[Section, ...]:
    """One run of super-blocks."""
    return (Section(name="blocks", start=0, record_bytes=BLOCK_BYTES, record_slots=BLOCK, records=packed.slots // BLOCK,
                    inside=lambda slot, record: parts(slot)),)


@functools.cache
def parts(slot: int) -> tuple[Part, ...]:
    """Code, 6-bit scale and minimum, and the two float16 of a slot."""
    group, within = divmod(slot, GROUP)
    code = Part("code", "code", (Span(16 + GROUP * (group // 2) + within, 4 * (group % 2), 4),))
    if group < 4:
        steps = (Span(4 + group, 0, 6),), (Span(8 + group, 0, 6),)
    else:
        steps = ((Span(8 + group, 0, 4), Span(group, 6, 2)), (Span(8 + group, 4, 4), Span(4 + group, 6, 2)))
    return (code, Part("scale", "group scale", steps[0]), Part("zero", "group minimum", steps[1]), *SUPER)
