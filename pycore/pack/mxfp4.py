"""MXFP4: E2M1 codes in blocks of 32, each with an E8M0 scale, a power of two (OCP Microscaling Formats 1.0).

    split   codes   | w1 w0 | w3 w2 | ...   16 bytes a block, low nibble first
            scales  | e0 | e1 | ...         one byte a block: 2^(e - 127)
    gguf    block   | e | w16 w0 | w17 w1 | ... | w31 w15 |       17 bytes: block_mxfp4 of ggml

    weight = value(code) x 2^(e - 127),   e - 127 = floor(log2(largest magnitude)) - 2, since 6 = 1.5 x 2^2

The largest magnitude lands in [4, 8) steps; what exceeds 6 saturates. An all-zero block has e = 0. GGUF's own text writes
codes doubled (0 to 12) under half the scale: the same numbers. Bits per weight: 4 + 8 / 32 = 4.25.
"""

from typing import TYPE_CHECKING

from pycore.pack import fp4, minifloat, nibbles
from pycore.pack.groups import magnitude
from pycore.pack.packed import Packed, Section, own, whole
from pycore.pack.values import as_rows, checked_size, chosen, padded, stride_of

if TYPE_CHECKING:
    from numpy import ndarray

BLOCK, BLOCK_BYTES = 32, 17


def quantise(values: object, *, layout: str = "split") -> Packed:
    """`values` (any shape; the last dimension is a row) in MXFP4. Raises InputError."""
    import numpy as np

    chosen("layout", layout, fp4.LAYOUTS)
    rows, shape = as_rows(values)
    blocks = padded(rows, BLOCK).reshape(-1, BLOCK)
    shared = np.clip(minifloat.exponents(magnitude(blocks)) - 2 + 127, 0, 254).astype(np.uint8).reshape(-1)
    # The product is exact unless it is subnormal, and then far below half of the smallest step.
    codes = fp4.encode(blocks, minifloat.power_of_two(254 - shared).reshape(-1, 1), layout)
    return made(codes, shared, shape, layout, pack(codes, shared, layout).tobytes())


def made(codes: "ndarray", shared: "ndarray", shape: tuple[int, ...], layout: str, data: bytes) -> Packed:
    """The noun from block codes (n, 32) and E8M0 codes (n)."""
    stride = stride_of(shape[-1], BLOCK)
    return Packed(format="mxfp4", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=minifloat.power_of_two(shared).reshape(-1, 1), data=data, options=(("layout", layout),))


def pack(codes: "ndarray", shared: "ndarray", layout: str = "split") -> "ndarray":
    """Block codes (n, 32) and E8M0 codes (n) to bytes."""
    import numpy as np

    if layout == "split":
        return np.concatenate([nibbles.pack(codes), shared])
    return np.concatenate([shared.reshape(-1, 1), nibbles.pack_halves(codes, BLOCK)], axis=1).reshape(-1)


def unpack(data: "ndarray", layout: str = "split") -> tuple["ndarray", "ndarray"]:
    """Bytes to block codes (n, 32) and E8M0 codes (n)."""
    blocks = data.size // BLOCK_BYTES
    if layout == "split":
        return nibbles.unpack(data[:16 * blocks]).reshape(-1, BLOCK), data[16 * blocks:]
    block = data.reshape(-1, BLOCK_BYTES)
    return nibbles.unpack_halves(block[:, 1:], BLOCK), block[:, 0]


def read(data: bytes, shape: tuple[int, ...], *, layout: str = "split") -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    import numpy as np

    chosen("layout", layout, fp4.LAYOUTS)
    slots = int(np.prod(shape)) // shape[-1] * stride_of(shape[-1], BLOCK)
    data = checked_size(data, slots // BLOCK * BLOCK_BYTES, "an MXFP4 tensor")
    codes, shared = unpack(np.frombuffer(data, np.uint8), layout)
    return made(codes, shared, shape, layout, data)


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape; NaN under the scale code 255."""
    import numpy as np

    values = fp4.decode(packed.codes).reshape(-1, BLOCK)
    values *= packed.scales
    return np.ascontiguousarray(values.reshape(-1, packed.stride)[:, :packed.columns]).reshape(packed.shape)


def scale_value(code: int) -> float:
    """What an E8M0 code stands for."""
    return 2.0 ** (code - 127) if code < 255 else float("nan")


def sections(packed: Packed) -> tuple[Section, ...]:
    """Codes then scales, or blocks."""
    blocks, scale = packed.slots // BLOCK, whole("scale", "shared exponent", 1, scale_value)
    if packed.option("layout") == "gguf":
        return (Section(name="blocks", start=0, record_bytes=BLOCK_BYTES, record_slots=BLOCK, records=blocks,
                        inside=lambda slot, record: (fp4.half_part(slot, BLOCK // 2, 1), scale)),)
    units = nibbles.code_parts("low-first", fp4.VALUES.__getitem__)
    code = Section(name="codes", start=0, record_bytes=1, record_slots=2, records=packed.slots // 2,
                   inside=lambda slot, record: units[slot])
    return code, Section(name="scales", start=code.end, record_bytes=1, record_slots=BLOCK, records=blocks, shared=True,
                         inside=own((scale,)))
