"""A uniform grid of 2 to 8 bits for groups of weights: scale and zero from the group's range, and the nearest codes.

    weight = (code - zero) x scale,   codes 0 to 2^bits - 1

    symmetric          zero = middle = 2^(bits - 1), scale = largest magnitude / (middle - 1), code 0 unused
    symmetric, full    zero = middle, scale = largest magnitude / ((2^bits - 1) / 2): one code more, half a step may be lost
    asymmetric         scale = (largest - smallest) / (2^bits - 1), 0 inside the range; zero = round(-smallest / scale)
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack import scales as scale_types
from pycore.pack.groups import each, extremes

if TYPE_CHECKING:
    from numpy import ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Bits, symmetry and the type in which scales are stored."""

    bits: int = 4
    symmetric: bool = True
    full: bool = False
    scale_type: str = "float16"

    def __post_init__(self):
        if type(self.bits) is not int or not 2 <= self.bits <= 8:
            raise InputError("bits", self.bits, "use 2 to 8")

    @property
    def top(self) -> int:
        """The largest code."""
        return 2**self.bits - 1

    @property
    def middle(self) -> int:
        """The zero of a symmetric grid."""
        return 2 ** (self.bits - 1)

    def parameters(self, groups: "ndarray") -> tuple["ndarray", "ndarray"]:
        """(scales, zeros), each (n, 1) float32, for groups in rows; scales as their type holds them. Raises InputError."""
        import numpy as np

        low, high = extremes(groups)
        if self.symmetric:
            largest = np.maximum(np.abs(low), np.abs(high))
            divisor = np.float32(self.top / 2 if self.full else self.middle - 1)
            scales = scale_types.stored(largest / divisor, self.scale_type)[0]
            return scales, np.full_like(scales, self.middle)
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        # In float64, since the range may exceed float32.
        scales = scale_types.stored((high.astype(np.float64) - low) / self.top, self.scale_type)[0]
        zeros = np.clip(-np.rint(low * scale_types.reciprocal(scales)), 0, self.top)
        return scales, zeros.astype(np.float32)

    def nearest(self, groups: "ndarray", scales: "ndarray", zeros: "ndarray") -> "ndarray":
        """The nearest codes (uint8) to groups in rows: round(value x (1 / scale)) + zero, ties to even."""
        import numpy as np

        lowest = 1 if self.symmetric and not self.full else 0

        def work(codes: "ndarray", part: "ndarray", inverse: "ndarray", zero: "ndarray") -> None:
            np.multiply(part, inverse, out=codes)
            np.rint(codes, out=codes)
            codes += np.float32(self.middle) if self.symmetric else zero
            np.clip(codes, lowest, self.top, out=codes)

        codes = np.empty(groups.shape, np.uint8)
        return each(groups, codes, work, scale_types.reciprocal(scales), zeros)

    def values(self, codes: "ndarray", scales: "ndarray", zeros: "ndarray") -> "ndarray":
        """What codes stand for, float32."""
        import numpy as np

        return (codes.astype(np.float32) - zeros) * scales
