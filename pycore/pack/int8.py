"""INT8: one byte a weight, one scale for the tensor, for an output channel, or for a token.

    codes   | w0 | w1 | w2 | ...      two's complement, row after row
    scales  | s0 | s1 | ...           one (tensor) or one a row, float32, float16 or bfloat16, little-endian
    zeros   | z0 | z1 | ...           asymmetric only: one int8 for each scale

    weight = (code - zero) x scale

A channel is a row of a weight matrix (one output), a token a row of an activation matrix: the same arithmetic on another
matrix. Symmetric: scale = largest magnitude / 127, codes -127 to 127 (as LLM.int8, Dettmers 2022, arXiv 2208.07339).
Asymmetric: scale = (largest - smallest) / 255 with 0 inside the range, so that 0 is exact (Jacob 2017, arXiv 1712.05877).
Codes are round(value x (1 / scale)), ties to even, as torch and torchao compute them.
"""

from typing import TYPE_CHECKING

from pycore.pack import scales as scale_types
from pycore.pack.groups import affine
from pycore.pack.packed import Packed, Section, own, whole
from pycore.pack.values import as_rows, checked_size, chosen

if TYPE_CHECKING:
    from numpy import ndarray

GRANULARITIES = ("tensor", "channel", "token")
MAGNITUDE = 127


def signed_byte(bits: int) -> int:
    """Two's complement."""
    return bits - 256 if bits > 127 else bits


def quantise(values: object, *, granularity: str = "channel", symmetric: bool = True,
             scale_type: str = "float32") -> Packed:
    """`values` (any shape; the last dimension is a row) in INT8. Raises InputError."""
    import numpy as np

    rows, shape = as_rows(values)
    chosen("granularity", granularity, GRANULARITIES)
    axis = None if granularity == "tensor" else 1
    low, high = rows.min(axis=axis, keepdims=True), rows.max(axis=axis, keepdims=True)
    scales, zeros, scale_bytes = parameters(low.reshape(-1, 1), high.reshape(-1, 1), symmetric, scale_type)
    lowest = -MAGNITUDE if symmetric else -128
    codes = np.multiply(rows, scale_types.reciprocal(scales))
    np.rint(codes, out=codes)
    if zeros is not None:
        codes += zeros
    codes = np.clip(codes, lowest, MAGNITUDE, out=codes).astype(np.int8)
    options = (("granularity", granularity), ("symmetric", symmetric), ("scale_type", scale_type))
    data = b"".join((codes, scale_bytes, b"" if zeros is None else zeros.astype(np.int8)))
    return Packed(format="int8", shape=shape, stride=shape[-1], codes=codes, scales=scales, zeros=zeros, data=data,
                  options=options)


def parameters(low: "ndarray", high: "ndarray", symmetric: bool, kind: str) -> tuple:
    """(scales, zeros or None, bytes of the scales) from the smallest and largest value under each scale."""
    import numpy as np

    if symmetric:
        scales, data = scale_types.stored(np.maximum(np.abs(low), np.abs(high)) / np.float32(MAGNITUDE), kind)
        return scales, None, data
    low, high = np.minimum(low, 0), np.maximum(high, 0)
    # In float64, since high - low may exceed float32.
    scales, data = scale_types.stored((high.astype(np.float64) - low) / 255, kind)
    zeros = np.clip(-128 - np.rint(low * scale_types.reciprocal(scales)), -128, 127)
    return scales, zeros.astype(np.float32), data


def pack(codes: "ndarray") -> "ndarray":
    """Codes -128 to 127 to bytes, one for one."""
    import numpy as np

    return np.ascontiguousarray(codes, dtype=np.int8).view(np.uint8).reshape(-1).copy()


def unpack(data: "ndarray") -> "ndarray":
    """Bytes to codes -128 to 127."""
    import numpy as np

    return np.frombuffer(data, np.int8).copy() if isinstance(data, bytes) else data.view(np.int8).copy()


def read(data: bytes, shape: tuple[int, ...], *, granularity: str = "channel", symmetric: bool = True,
         scale_type: str = "float32") -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    import numpy as np

    size = int(np.prod(shape))
    count = 1 if granularity == "tensor" else size // shape[-1]
    width = scale_types.BYTES[chosen("scale_type", scale_type, scale_types.TYPES)]
    data = checked_size(data, size + count * width + (0 if symmetric else count), "an INT8 tensor")
    end = size + count * width
    zeros = None if symmetric else np.frombuffer(data[end:], np.int8).astype(np.float32).reshape(-1, 1)
    return Packed(format="int8", shape=tuple(shape), stride=shape[-1], codes=unpack(data[:size]).reshape(-1, shape[-1]),
                  scales=scale_types.from_bytes(data[size:end], scale_type).reshape(-1, 1), zeros=zeros, data=data,
                  options=(("granularity", granularity), ("symmetric", symmetric), ("scale_type", scale_type)))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    import numpy as np

    rows = packed.codes.shape[0]
    scales, zeros = (None if one is None else np.broadcast_to(one, (rows, 1)) for one in (packed.scales, packed.zeros))
    return affine(packed.codes, scales, 0 if zeros is None else zeros).reshape(packed.shape)


def sections(packed: Packed) -> tuple[Section, ...]:
    """Codes, then scales, then zeros."""
    count = packed.scales.size
    serves = packed.slots // count
    kind = packed.option("scale_type")
    width, end = scale_types.BYTES[kind], packed.slots
    code = Section(name="codes", start=0, record_bytes=1, record_slots=1, records=packed.slots,
                   inside=own((whole("code", "code", 1, signed_byte),)))
    scale = Section(name="scales", start=end, record_bytes=width, record_slots=serves, records=count, shared=True,
                    inside=own((whole("scale", "scale", width, scale_types.decoder(kind)),)))
    if packed.zeros is None:
        return code, scale
    zero = Section(name="zeros", start=scale.end, record_bytes=1, record_slots=serves, records=count, shared=True,
                   inside=own((whole("zero", "zero", 1, signed_byte),)))
    return code, scale, zero
