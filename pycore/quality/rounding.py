"""Weights rounded by a format; where some were set by hand, only their rows anew: a drag moves one row of hundreds."""

import functools
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack import formats, measures
from pycore.pack.measures import Error
from pycore.quality.prepared import Options
from pycore.quality.weights import Weights

if TYPE_CHECKING:
    from numpy import ndarray

MOST_KEPT = 1 << 17  # weights; every format's copy of more would not fit a page's memory
SHARED = ("nvfp4", "bitnet-2bit", "bitnet-5in8")  # one scale for all rows


def rounded(weights: Weights, format_id: str, options: Options) -> tuple[float, "ndarray"]:
    """(bits per weight, what the bytes stand for: float32 (rows, columns)), the very same as of the whole tensor at once.

    Raises InputError.
    """
    base = weights.before
    if weights.count > MOST_KEPT or base is not None and not few_rows(weights, format_id, options):
        return whole.__wrapped__(weights, format_id, options)
    if base is None:
        return whole(weights, format_id, options)
    touched = list(weights.touched)
    try:
        bits, before = whole(base, format_id, options)
        part = formats.dequantise(formats.quantise(format_id, weights.values[touched], **dict(options)))
    except InputError:  # it was before the edits, or names a place in the rows alone
        return whole.__wrapped__(weights, format_id, options)
    restored = before.copy()
    restored[touched] = part
    return bits, restored


@functools.lru_cache(maxsize=64)
def whole(weights: Weights, format_id: str, options: Options) -> tuple[float, "ndarray"]:
    """The same, of all rows. Raises InputError."""
    packed = formats.quantise(format_id, weights.values, **dict(options))
    return packed.bits_per_weight, formats.dequantise(packed)


def blocks(weights: Weights, restored: "ndarray", block: int, format_id: str, options: Options) -> tuple[Error, ...]:
    """The error of every block of `block` weights, row after row; those of rows that were not set by hand are kept.

    Raises InputError where a number is not finite.
    """
    if weights.count > MOST_KEPT or not few_rows(weights, format_id, options):
        return measures.by_block(weights.values, restored, block)
    try:
        found = list(blocks_before(weights.before, block, format_id, options))
    except InputError:
        return measures.by_block(weights.values, restored, block)
    a_row = len(found) // weights.rows
    for row in weights.touched:
        found[row * a_row:(row + 1) * a_row] = measures.by_block(weights.values[row:row + 1], restored[row:row + 1], block)
    return tuple(found)


@functools.lru_cache(maxsize=4)
def blocks_before(weights: Weights, block: int, format_id: str, options: Options) -> tuple[Error, ...]:
    """The same before anything was set by hand. Raises InputError."""
    return measures.by_block(weights.values, rounded(weights, format_id, options)[1], block)


def few_rows(weights: Weights, format_id: str, options: Options) -> bool:
    """Whether few rows were set by hand, and the others do not care."""
    return weights.before is not None and 2 * len(weights.touched) <= weights.rows and by_row(format_id, options)


def by_row(format_id: str, options: Options) -> bool:
    """Whether a row's codes and scales follow from that row alone: no scale of the tensor, no scales of scales."""
    given = dict(options)
    if format_id == "nf4":
        return given.get("double") is False
    return format_id not in SHARED and given.get("granularity") != "tensor"
