"""FP8: one byte a weight, E4M3FN or E5M2, with no scale, one scale for the tensor, or one a row.

    codes   | w0 | w1 | w2 | ...     bit layout: `minifloat.py`
    scales  | s0 | s1 | ...          float32, one (tensor) or one a row (channel, token); none with granularity `none`

    weight = value(code) x scale,   scale = largest magnitude / largest of the kind (448 or 57,344)

With granularity `none` the values are cast as they are, NaN and infinity included: `overflow` says what becomes of what is
too large (see `minifloat.py`). With a scale nothing overflows, so NaN and infinity are refused.
"""

from typing import TYPE_CHECKING

from pycore.pack import minifloat
from pycore.pack import scales as scale_types
from pycore.pack.groups import magnitude
from pycore.pack.minifloat import E4M3FN, E5M2, Minifloat
from pycore.pack.packed import Packed, Section, own, whole
from pycore.pack.values import LARGEST, as_rows, checked_size, chosen, refuse_non_finite

if TYPE_CHECKING:
    from numpy import ndarray

KINDS = {"e4m3": E4M3FN, "e5m2": E5M2}
GRANULARITIES = ("none", "tensor", "channel", "token")


def kind_of(name: str) -> Minifloat:
    """The kind by name. Raises InputError."""
    return KINDS[chosen("kind", name, tuple(KINDS))]


def quantise(values: object, *, kind: str = "e4m3", granularity: str = "channel", overflow: str = "saturate") -> Packed:
    """`values` (any shape; the last dimension is a row) in FP8. Raises InputError."""
    import numpy as np

    small = kind_of(kind)
    chosen("granularity", granularity, GRANULARITIES)
    rows, shape = as_rows(values, finite=False)
    scales, scale_bytes = np.ones((1, 1), np.float32), b""
    if granularity != "none":
        largest = magnitude(rows.reshape(1, -1) if granularity == "tensor" else rows)
        if not (largest <= LARGEST).all():
            refuse_non_finite(rows)
        scales, scale_bytes = scale_types.stored(largest / np.float32(small.largest), "float32")
    factors = None if granularity == "none" else np.broadcast_to(scale_types.reciprocal(scales), (len(rows), 1))
    codes = minifloat.encode_rows(rows, factors, small, overflow)
    return Packed(format=f"fp8-{kind}", shape=shape, stride=shape[-1], codes=codes, scales=scales,
                  data=b"".join((codes, scale_bytes)),
                  options=(("kind", kind), ("granularity", granularity), ("overflow", overflow)))


def pack(values: "ndarray", kind: str = "e4m3", overflow: str = "saturate") -> "ndarray":
    """Float32 to codes, ties to even."""
    return minifloat.encode(values, kind_of(kind), overflow)


def unpack(codes: "ndarray", kind: str = "e4m3") -> "ndarray":
    """Codes to float32."""
    return minifloat.decode(codes, kind_of(kind))


def read(data: bytes, shape: tuple[int, ...], *, kind: str = "e4m3", granularity: str = "channel",
         overflow: str = "saturate") -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    import numpy as np

    kind_of(kind)
    size = int(np.prod(shape))
    count = {"none": 0, "tensor": 1}.get(chosen("granularity", granularity, GRANULARITIES), size // shape[-1])
    data = checked_size(data, size + 4 * count, "an FP8 tensor")
    scales = scale_types.from_bytes(data[size:], "float32") if count else np.ones(1, np.float32)
    return Packed(format=f"fp8-{kind}", shape=tuple(shape), stride=shape[-1], scales=scales.reshape(-1, 1), data=data,
                  codes=np.frombuffer(data[:size], np.uint8).reshape(-1, shape[-1]),
                  options=(("kind", kind), ("granularity", granularity), ("overflow", overflow)))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    values = unpack(packed.codes, packed.option("kind"))
    if packed.option("granularity") != "none":
        values *= packed.scales
    return values.reshape(packed.shape)


def sections(packed: Packed) -> tuple[Section, ...]:
    """Codes, then scales where there are any."""
    small = kind_of(packed.option("kind"))
    code = Section(name="codes", start=0, record_bytes=1, record_slots=1, records=packed.slots,
                   inside=own((whole("code", "code", 1, lambda bits: minifloat.value(small, bits)),)))
    if packed.option("granularity") == "none":
        return (code,)
    count = packed.scales.size
    scale = Section(name="scales", start=code.end, record_bytes=4, record_slots=packed.slots // count, records=count,
                    shared=True, inside=own((whole("scale", "scale", 4, scale_types.decoder("float32")),)))
    return code, scale
