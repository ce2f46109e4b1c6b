"""NF4: 16 levels at the quantiles of a normal distribution, blocks of 64, scales themselves quantised (QLoRA).

    codes     | w0 w1 | w2 w3 | ...      two a byte, the even weight in the HIGH nibble
    scales    | s0 | s1 | ...            with double quantisation one byte a block: a code of the dynamic 8-bit map
              | s s s s | ...            without: float32, the block's largest magnitude
    second    | t t t t | ...            double quantisation: float32, one for 256 blocks
    offset    | o o o o |                double quantisation: float32, the mean of the block scales

    weight = level(code) x scale,   scale = map(s) x t + o

Codes are the nearest level to value / largest magnitude of the block; the codes are chosen before the scales are
quantised, so double quantisation adds an error of its own. A block never crosses a row; where rows are whole blocks the
bytes are those of bitsandbytes. Bits per weight: 4 + 32 / 64 = 4.5; double: 4 + 8 / 64 + 32 / 16,384 = 4.127.

Sources: Dettmers 2023, QLoRA (arXiv 2305.14314), appendix E for the levels; Dettmers 2016 (arXiv 1511.04561) for the map.
"""

import functools
from typing import TYPE_CHECKING

from pycore.pack import nibbles
from pycore.pack import scales as scale_types
from pycore.pack.groups import lookup, magnitude, slices
from pycore.pack.packed import Packed, Section, own, whole
from pycore.pack.values import as_rows, checked_size, chosen, padded, stride_of

if TYPE_CHECKING:
    from numpy import ndarray

LEVELS = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
          -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
          0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0)
BLOCKS = (32, 64, 128)
SECOND = 256
BUCKETS = 128  # each 1/64 wide, narrower than any two levels are apart: at most one midpoint falls into each


def midpoints() -> "ndarray":
    """The 15 values half-way between neighbouring levels, float32."""
    import numpy as np

    levels = np.array(LEVELS, np.float32)
    return (levels[:-1] + levels[1:]) / 2


def nearest(scaled: "ndarray") -> "ndarray":
    """Codes (uint8) of values -1 to 1: how many midpoints lie below (a value on a midpoint takes the lower level)."""
    import numpy as np

    middles = midpoints()
    edges = np.arange(BUCKETS + 1, dtype=np.float32) / np.float32(BUCKETS / 2) - 1
    below = np.searchsorted(middles, edges, side="left").astype(np.uint8)
    limits = np.append(middles, np.float32(2))[below]
    flat, out = scaled.reshape(-1), np.empty(scaled.size, np.uint8)
    for part in slices(flat.size, 1):
        value = flat[part]
        place = ((value + np.float32(1)) * np.float32(BUCKETS / 2)).astype(np.intp)
        np.add(np.take(below, place, mode="clip"), value > np.take(limits, place, mode="clip"), out=out[part])
    return out.reshape(scaled.shape)


@functools.cache
def dynamic_map() -> tuple[float, ...]:
    """The 256 values of the signed dynamic 8-bit type: seven decades, each with twice as many steps as the one below.

    In float32 as torch's `linspace` computes it, from both ends to the middle with one rounding, so that the values are
    bitsandbytes's to the bit.
    """
    import numpy as np

    single, values = np.float32, [np.float32(0), np.float32(1)]
    for decade in range(7):
        steps = 2**decade
        width = float((single(1) - single(0.1)) / single(steps))
        edges = [single(float(single(0.1)) + width * place) if place < (steps + 1) // 2
                 else single(1 - width * (steps - place)) for place in range(steps + 1)]
        for left, right in zip(edges, edges[1:], strict=False):
            mean = (left + right) / single(2) * single(10.0 ** (decade - 6))
            values += [mean, -mean]
    return tuple(float(value) for value in sorted(values))


def quantise(values: object, *, block: int = 64, double: bool = True) -> Packed:
    """`values` (any shape; the last dimension is a row) in NF4. Raises InputError."""
    rows, shape = as_rows(values)
    blocks = padded(rows, chosen("block", block, BLOCKS)).reshape(-1, block)
    largest = magnitude(blocks)
    codes = nearest(blocks * scale_types.reciprocal(largest))
    scales, scale_bytes = double_quantised(largest) if double else scale_types.stored(largest, "float32")
    stride = stride_of(shape[-1], block)
    return Packed(format="nf4", shape=shape, stride=stride, codes=codes.reshape(-1, stride), scales=scales,
                  data=b"".join((pack(codes), scale_bytes)), options=(("block", block), ("double", double)))


def double_quantised(largest: "ndarray") -> tuple["ndarray", bytes]:
    """Block scales (n, 1) through the dynamic map: as they come back, and their bytes."""
    import numpy as np

    offset = np.float32(largest.mean(dtype=np.float64))
    steps = np.array(dynamic_map(), np.float32)
    rest = largest.reshape(-1) - offset
    groups = padded(rest.reshape(1, -1), SECOND).reshape(-1, SECOND)
    second = magnitude(groups)
    scaled = (groups * scale_types.reciprocal(second)).reshape(-1)[:rest.size]
    codes = np.searchsorted((steps[:-1] + steps[1:]) / 2, scaled, side="left").astype(np.uint8)
    data = codes.tobytes() + second.astype("<f4").tobytes() + np.array([offset], "<f4").tobytes()
    return restored(codes, second.reshape(-1), offset), data


def restored(codes: "ndarray", second: "ndarray", offset: float) -> "ndarray":
    """Block scales (n, 1) from their codes (n), one float32 for 256 of them, and the offset."""
    import numpy as np

    return (np.array(dynamic_map(), np.float32)[codes] * np.repeat(second, SECOND)[:codes.size]
            + np.float32(offset)).reshape(-1, 1)


def pack(codes: "ndarray") -> "ndarray":
    """Codes 0 to 15 to bytes."""
    return nibbles.pack(codes, "high-first")


def unpack(data: "ndarray") -> "ndarray":
    """Bytes to codes 0 to 15."""
    return nibbles.unpack(data, "high-first")


def read(data: bytes, shape: tuple[int, ...], *, block: int = 64, double: bool = True) -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    import numpy as np

    stride = stride_of(shape[-1], chosen("block", block, BLOCKS))
    slots = int(np.prod(shape)) // shape[-1] * stride
    count = slots // block
    second = -(-count // SECOND)
    data = checked_size(data, slots // 2 + (count + 4 * second + 4 if double else 4 * count), "an NF4 tensor")
    scales, rest = None, data[slots // 2:]
    if double:
        floats = scale_types.from_bytes(rest[count:], "float32")
        scales = restored(np.frombuffer(rest[:count], np.uint8), floats[:-1], floats[-1])
    else:
        scales = scale_types.from_bytes(rest, "float32").reshape(-1, 1)
    return Packed(format="nf4", shape=tuple(shape), stride=stride, codes=unpack(data[:slots // 2]).reshape(-1, stride),
                  scales=scales, data=data, options=(("block", block), ("double", double)))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    import numpy as np

    values = lookup(np.array(LEVELS, np.float32), packed.codes.reshape(-1, packed.option("block")))
    values *= packed.scales
    return np.ascontiguousarray(values.reshape(-1, packed.stride)[:, :packed.columns]).reshape(packed.shape)


def sections(packed: Packed) -> tuple[Section, ...]:
    """Codes, scales and, with double quantisation, second scales and offset."""
    block = packed.option("block")
    count, units = packed.slots // block, nibbles.code_parts("high-first", LEVELS.__getitem__)
    number = scale_types.decoder("float32")
    code = Section(name="codes", start=0, record_bytes=1, record_slots=2, records=packed.slots // 2,
                   inside=lambda slot, record: units[slot])
    if not packed.option("double"):
        return code, Section(name="scales", start=code.end, record_bytes=4, record_slots=block, records=count,
                             shared=True, inside=own((whole("scale", "scale", 4, number),)))
    scale = Section(name="scales", start=code.end, record_bytes=1, record_slots=block, records=count, shared=True,
                    inside=own((whole("scale", "scale code", 1, dynamic_map().__getitem__),)))
    second = Section(name="second", start=scale.end, record_bytes=4, record_slots=block * SECOND,
                     records=-(-count // SECOND), shared=True, inside=own((whole("scale", "second scale", 4, number),)))
    offset = Section(name="offset", start=second.end, record_bytes=4, record_slots=packed.slots, records=1, shared=True,
                     inside=own((whole("zero", "offset", 4, number),)))
    return code, scale, second, offset
