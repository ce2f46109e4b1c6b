"""Inputs of a small layer, drawn to be like what a transformer's layers see: they decide which errors matter."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pycore.quality import draws

if TYPE_CHECKING:
    from numpy import ndarray

CARRY = 0.8  # how much of a column's input is its left neighbour's
OUTLIERS_EVERY, OUTLIERS_TIMES = 16, 8.0


def independent(seed: int, samples: int, columns: int) -> "ndarray":
    """Normal, every column by itself: then rounding to nearest is already the best."""
    return draws.normals(seed, 1, samples * columns).reshape(samples, columns)


def correlated(seed: int, samples: int, columns: int) -> "ndarray":
    """Each column 0.8 of its left neighbour and 0.6 of its own: variance 1, correlation 0.8 to the power of the distance."""
    values = independent(seed, samples, columns)
    for column in range(1, columns):
        values[:, column] = CARRY * values[:, column - 1] + 0.6 * values[:, column]
    return values


def outlier_channels(seed: int, samples: int, columns: int) -> "ndarray":
    """Correlated, and one column in 16 is 8 times as large, as a few channels of large models are (Dettmers 2022)."""
    values = correlated(seed, samples, columns)
    values[:, OUTLIERS_EVERY // 4::OUTLIERS_EVERY] *= OUTLIERS_TIMES
    return values


INPUTS: dict[str, Callable[[int, int, int], "ndarray"]] = {
    "outlier-channels": outlier_channels, "correlated": correlated, "independent": independent}
