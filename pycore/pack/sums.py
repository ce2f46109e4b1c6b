"""Sums that come out the same on every machine, over arrays too long for `math.fsum`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray


def folded_sum(values: "ndarray") -> "ndarray":
    """Sums over the first axis by adding its second half to its first, again and again: one order, whatever the machine."""
    count = values.shape[0]
    while count > 1:
        half = count // 2
        folded = values[:half] + values[half:2 * half]
        if count % 2:
            folded[0] += values[count - 1]
        values, count = folded, half
    return values[0]
