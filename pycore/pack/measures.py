"""How far quantised weights are from the weights: SQNR, cosine and errors, overall and block by block.

Sums are taken in float64 by halving the array (the same order on every machine), so that a page and a command agree.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.ledger import term
from pycore.pack.sums import folded_sum
from pycore.pack.values import as_array

if TYPE_CHECKING:
    from numpy import ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """What quantisation did to a set of weights. `sqnr_db` is infinite without an error, NaN for weights all zero."""

    weights: int
    sqnr_db: float
    cosine: float
    max_error: float
    mean_squared_error: float

    def as_dict(self) -> dict:
        """Plain data; what JSON cannot hold is None."""
        row = {name: getattr(self, name) for name in self.__slots__}
        return {name: value if math.isfinite(value) else None for name, value in row.items()}


def error(values: object, restored: object) -> Error:
    """The error over all weights. Raises InputError when the shapes differ or a number is not finite."""
    before, after = pair(values, restored)
    return one_error(before.size, *(float(one) for one in sums(before.reshape(-1), after.reshape(-1))),
                     largest_difference(before, after))


def by_block(values: object, restored: object, block: int) -> tuple[Error, ...]:
    """The error of every block of `block` weights of a row, row after row; a row's last block may be short."""
    import numpy as np

    before, after = pair(values, restored)
    columns, found = before.shape[-1], []
    before, after = before.reshape(-1, columns), after.reshape(-1, columns)
    for start in range(0, columns, block):
        left, right = before[:, start:start + block].T, after[:, start:start + block].T
        rows = zip(*(one.tolist() for one in sums(left, right)), np.abs(left - right).max(axis=0).tolist(), strict=True)
        found.append([one_error(left.shape[0], *row) for row in rows])
    return tuple(one for row in zip(*found, strict=True) for one in row)


def pair(values: object, restored: object) -> tuple["ndarray", "ndarray"]:
    """Both as float64 arrays of one shape. Raises InputError."""
    import numpy as np

    before, after = as_array(values).astype(np.float64), as_array(restored).astype(np.float64)
    if before.shape != after.shape:
        raise InputError("restored", after.shape, f"it has the shape of the values, {before.shape}")
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        raise InputError("values", "NaN or infinity", "an error is measured between finite numbers")
    return before, after


def sums(before: "ndarray", after: "ndarray") -> tuple["ndarray", ...]:
    """Along the first axis: squares of the values, of the restored, of the difference, and the products."""
    difference = before - after
    return tuple(folded_sum(one) for one in (before * before, after * after, difference * difference, before * after))


def largest_difference(before: "ndarray", after: "ndarray") -> float:
    """The largest absolute error."""
    import numpy as np

    return float(np.abs(before - after).max())


def one_error(count: int, signal: float, restored: float, noise: float, product: float, largest: float) -> Error:
    """An Error from sums."""
    norm = math.sqrt(signal) * math.sqrt(restored)
    return Error(weights=count, sqnr_db=decibels(signal, noise), cosine=product / norm if norm else math.nan,
                 max_error=largest, mean_squared_error=noise / count)


def decibels(signal: float, noise: float) -> float:
    """10 x log10(signal / noise): infinite without noise, NaN where there is no signal either to measure against."""
    if signal == 0:
        return math.nan
    return math.inf if noise == 0 else 10 * math.log10(signal / noise)


@term("Compression", "", source="stored bits over the bits of 16-bit weights")
def compression(weights: int, stored_bytes: int, bits_before: int) -> float:
    "weights × bits_before ÷ (8 × stored_bytes)"
    return weights * bits_before / (8 * stored_bytes)


@term("SQNR of a uniform quantiser", "dB", source="Bennett 1948: error variance step² / 12")
def uniform_sqnr_db(bits: int, crest: float) -> float:
    "10 × log10(12 × (2^bits − 1)² ÷ (2 × crest)²)"
    return 10 * math.log10(12 * (2**bits - 1) ** 2 / (2 * crest) ** 2)


@term("SQNR of a uniform quantiser over uniform values", "dB", source="crest = √3 in the line above")
def textbook_sqnr_db(bits: int) -> float:
    "20 × log10(2) × bits ≈ 6.02 × bits"
    return 20 * math.log10(2) * bits
