"""Floats of 4 and 8 bits: what each code stands for, and the nearest code to a 32-bit float.

    E4M3FN   | s e e e e m m m |   bias 7,  largest 448,    no infinity, NaN = s1111111
    E5M2     | s e e e e e m m |   bias 15, largest 57,344, infinity = s1111100, NaN = s11111xx
    E2M1     | s e e m |           bias 1,  0 0.5 1 1.5 2 3 4 6, no infinity, no NaN
    E8M0     | e e e e e e e e |   2^(code - 127), 255 = NaN, no sign, no zero

Sources: Micikevicius 2022 (arXiv 2209.05433) for the 8-bit kinds, OCP Microscaling Formats 1.0 for E2M1 and E8M0.

What to do with a number beyond the largest is a choice that programs make differently, so it is named:
`saturate` gives the largest finite code, infinity included (torch's float8_e4m3fn; OCP's saturating mode);
`nan` gives NaN in E4M3FN and infinity in E5M2 (`ml_dtypes`; torch's float8_e5m2 too). NaN stays NaN either way.
"""

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.pack.groups import CHUNK, lookup, slices
from pycore.pack.values import chosen

if TYPE_CHECKING:
    from numpy import ndarray

OVERFLOWS = ("saturate", "nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Minifloat:
    """A kind of small float: sign, exponent, mantissa. `nan_code` is None where the kind has no NaN."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest_code: int
    overflow_code: int  # what `nan` gives beyond the largest
    nan_code: int | None

    @property
    def sign(self) -> int:
        """The code's sign bit."""
        return 1 << self.exponent_bits + self.mantissa_bits

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return value(self, self.largest_code)

    @property
    def codes(self) -> int:
        """How many codes there are."""
        return 2 * self.sign


E4M3FN = Minifloat(name="E4M3FN", exponent_bits=4, mantissa_bits=3, bias=7, largest_code=0x7E, overflow_code=0x7F,
                   nan_code=0x7F)
E5M2 = Minifloat(name="E5M2", exponent_bits=5, mantissa_bits=2, bias=15, largest_code=0x7B, overflow_code=0x7C,
                 nan_code=0x7F)
E2M1 = Minifloat(name="E2M1", exponent_bits=2, mantissa_bits=1, bias=1, largest_code=7, overflow_code=7, nan_code=None)


def value(kind: Minifloat, code: int) -> float:
    """(-1)^sign x 2^(exponent - bias) x (1 + mantissa / 2^m); without the 1 and with exponent 1 where the exponent is 0."""
    magnitude, sign = code & kind.sign - 1, -1.0 if code & kind.sign else 1.0
    if magnitude > kind.largest_code:
        return sign * math.inf if kind is E5M2 and magnitude == 0x7C else math.nan
    exponent, mantissa = divmod(magnitude, 1 << kind.mantissa_bits)
    fraction = mantissa / (1 << kind.mantissa_bits) + (exponent > 0)
    return sign * math.ldexp(fraction, max(exponent, 1) - kind.bias)


@functools.cache
def table(kind: Minifloat) -> "ndarray":
    """The value of every code, float32; not to be written to."""
    import numpy as np

    found = np.array([value(kind, code) for code in range(kind.codes)], np.float32)
    found.flags.writeable = False
    return found


def decode(codes: "ndarray", kind: Minifloat) -> "ndarray":
    """Codes (uint8) to float32."""
    return lookup(table(kind), codes)


def encode(values: "ndarray", kind: Minifloat, overflow: str = "saturate", *, ties: str = "even") -> "ndarray":
    """The nearest codes (uint8) to float32 values, in their shape; ties to the even code, or `down` to the smaller."""
    import numpy as np

    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    whole = flat.size // CHUNK * CHUNK
    parts = [encode_rows(part, None, kind, overflow, ties=ties).reshape(-1)
             for part in (flat[:whole].reshape(-1, CHUNK), flat[whole:].reshape(1, -1)) if part.size]
    return (np.concatenate(parts) if len(parts) > 1 else parts[0]).reshape(np.shape(values))


def encode_rows(rows: "ndarray", factors: "ndarray | None", kind: Minifloat, overflow: str = "saturate", *,
                ties: str = "even") -> "ndarray":
    """Codes (n, columns) of float32 rows, each first multiplied by its factor (n, 1).

    One look-up a number: by its upper 16 bits, the lowest of them set where any of the 16 below is.
    """
    import numpy as np

    chosen("overflow", overflow, OVERFLOWS)
    out, codes = np.empty(rows.shape, np.uint8), code_table(kind, overflow, ties)
    room = max(1, min(rows.shape[0], CHUNK // rows.shape[1])), rows.shape[1]
    scratch, bits = np.empty(room, np.float32), np.empty(room, np.uint32)
    index = np.empty(room, np.intp)
    for part in slices(*rows.shape):
        size = part.stop - part.start
        given = rows[part] if factors is None else np.multiply(rows[part], factors[part], out=scratch[:size])
        rest, place = bits[:size], index[:size]
        np.bitwise_and(given.view(np.uint32), 0xFFFF, out=rest)
        np.add(rest, 0xFFFF, out=rest)
        np.bitwise_or(rest, given.view(np.uint32), out=rest)
        np.copyto(place, rest.view("<u2")[:, 1::2])
        np.take(codes, place, out=out[part], mode="clip")
    return out


@functools.cache
def code_table(kind: Minifloat, overflow: str, ties: str) -> "ndarray":
    """The code for each upper half of a float32's bits, its lowest bit meaning "or a little more": 65,536 codes.

    A kind keeps at most 4 bits of the mantissa's upper 7, so which side of a tie a float lies on is known from these and
    from whether any lower bit is set.
    """
    import numpy as np

    upper, out = np.arange(1 << 16, dtype=np.uint32), np.empty(1 << 16, np.uint8)
    # An odd upper half stands for itself and all between it and the next: a lower bit set keeps it off the tie.
    encode_bits(upper << 16 | (upper & 1) << 15, out, kind, overflow, ties)
    return out


def encode_bits(bits: "ndarray", out: "ndarray", kind: Minifloat, overflow: str, ties: str) -> None:
    """The codes of floats, given as their bits, into `out`.

    Adding half a step (less one where the code below is even) to the float's own bits and cutting them off rounds; below
    the smallest normal number, adding a power of two makes the float unit round at the right place.
    """
    import numpy as np

    cut = 23 - kind.mantissa_bits
    magnitude = bits & 0x7FFFFFFF
    codes = magnitude >> cut
    rest = codes & 1 if ties == "even" else np.uint32(0)
    codes = (magnitude + ((1 << cut - 1) - 1) + rest) >> cut
    codes -= 127 - kind.bias << kind.mantissa_bits
    smallest = (128 - kind.bias) << 23  # bits of the smallest normal number
    low = magnitude < smallest
    if low.any():
        codes = np.where(low, subnormal(magnitude, kind, ties), codes)
    over = codes > kind.largest_code
    if over.any():
        # The subtraction above wraps below the smallest normal number, which `low` has replaced; what is left is large.
        codes = np.where(over, kind.largest_code if overflow == "saturate" else kind.overflow_code, codes)
        if kind.nan_code is not None:
            codes = np.where(magnitude > 0x7F800000, kind.nan_code, codes)
    sign = bits >> 31 << kind.exponent_bits + kind.mantissa_bits
    np.copyto(out, codes | sign, casting="unsafe")


def subnormal(magnitude: "ndarray", kind: Minifloat, ties: str) -> "ndarray":
    """Codes of numbers below the smallest normal one: how many smallest steps they are."""
    import numpy as np

    step_exponent = 1 - kind.bias - kind.mantissa_bits
    small = np.minimum(magnitude, (128 - kind.bias) << 23).view(np.float32)
    if ties == "even":
        magic = np.float32(math.ldexp(1.0, step_exponent + 23))
        return (small + magic).view(np.uint32) - magic.view(np.uint32)
    steps = small * np.float32(math.ldexp(1.0, -step_exponent))
    return np.ceil(steps - np.float32(0.5)).astype(np.uint32)


def exponents(largest: "ndarray") -> "ndarray":
    """floor(log2 x) of positive float32 numbers, exactly, from their bits; -127 for 0 and subnormal ones."""
    import numpy as np

    return (np.ascontiguousarray(largest, np.float32).view(np.uint32) >> 23 & 0xFF).astype(np.int32) - 127


def power_of_two(codes: "ndarray") -> "ndarray":
    """E8M0 codes 0 to 254 to float32: 2^(code - 127), code 0 being the subnormal 2^-127. 255 gives NaN."""
    import numpy as np

    wide = np.asarray(codes, np.uint32)
    bits = np.where(wide == 0, np.uint32(0x00400000), wide << 23)
    return np.where(wide == 255, np.float32(np.nan), bits.astype(np.uint32).view(np.float32))
