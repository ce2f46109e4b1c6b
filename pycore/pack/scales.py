"""Scales as they are stored: 32-, 16-bit floats and bfloat16, to numbers and to bytes."""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack.values import chosen

if TYPE_CHECKING:
    from numpy import ndarray

TYPES = ("float32", "float16", "bfloat16")
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
LARGEST = {"float32": 3.4028234663852886e38, "float16": 65504.0, "bfloat16": 3.3895313892515355e38}


def stored(scales: "ndarray", kind: str) -> tuple["ndarray", bytes]:
    """Scales rounded to what `kind` holds (ties to even), as float32, and their bytes. Raises InputError on overflow."""
    bits = encoded(scales, kind)
    data = bits.tobytes()
    return from_bytes(data, kind).reshape(bits.shape), data


def encoded(scales: "ndarray", kind: str) -> "ndarray":
    """Scales in their type, in their shape: float32, or the bits of a 16-bit one (uint16). Raises InputError on overflow."""
    import numpy as np

    chosen("scale_type", kind, TYPES)
    scales = np.ascontiguousarray(scales, dtype=np.float32)
    if kind == "float32":
        return scales.astype("<f4", copy=False)
    if kind == "float16":
        with np.errstate(over="ignore"):
            bits = scales.astype("<f2").view("<u2")
        infinite = 0x7C00
    else:
        wide, infinite = scales.view(np.uint32), 0x7F80
        bits = ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype("<u2")
    if bits.size and (bits & 0x7FFF).max() >= infinite:
        refuse_overflow(float(np.abs(scales).max()), kind)
    return bits


def refuse_overflow(largest: float, kind: str) -> None:
    """Raise InputError for a scale that does not fit its type."""
    raise InputError("values", f"a scale of {largest:.6g}", f"a {kind} holds at most {LARGEST[kind]:.6g}; give smaller "
                                                            "values, or float32 scales where the format has that option")


def from_bytes(data: bytes, kind: str) -> "ndarray":
    """The scales in `data` as float32."""
    import numpy as np

    if kind == "bfloat16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, "<f4" if kind == "float32" else "<f2").astype(np.float32)


def decoder(kind: str) -> Callable[[int], float]:
    """What the bits of one stored scale, as an integer, stand for."""
    if kind == "float16":
        return half
    shift = 16 if kind == "bfloat16" else 0
    return lambda bits: struct.unpack("<f", struct.pack("<I", bits << shift))[0]


def half(bits: int) -> float:
    """A 16-bit float from its bits."""
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def reciprocal(scales: "ndarray") -> "ndarray":
    """1 / scale, and 0 where a scale is 0 (an all-zero group: every code is the zero code)."""
    import numpy as np

    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(1) / scales
    return np.where(np.isfinite(inverse), inverse, np.float32(0))
