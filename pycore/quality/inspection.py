"""Weights in one format: codes, bytes, what they stand for, and the error."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.ledger import Term
from pycore.pack.fields import Owner
from pycore.pack.measures import Error
from pycore.pack.packed import Packed
from pycore.quality.registers import Share, View

if TYPE_CHECKING:
    from numpy import ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inspection:
    """What a format made of the weights.

    format      its id and `label`; `options` as they were used: (name, written value), defaults included
    packed      codes, scales, zeros and the bytes: see `pycore.pack.packed.Packed`
    restored    float32 (rows, columns): what the bytes stand for, in the weights' own space (rotation undone)
    error       over all weights; None where a number is not finite
    blocks      the error of every group that shares a scale, row after row; () where it could not be measured or where there
                are more than MOST_BLOCKS. `block_columns`: weights in such a group
    saturated   weights that lie beyond the outermost level of their scale by more than half of its step
    non_finite  NaN or infinity among the weights (taken only where the format has codes for them)
    shares      stored bits by role: codes, scales, zeros, metadata, padding
    bits_per_weight, compression     terms
    uniform_sqnr  what a uniform quantiser of as many bits would reach on these weights (their crest factor); None where
                the code is no whole number of bits from 2 to 8 or the error could not be measured
    textbook_sqnr 6.02 dB a bit; None as above
    view        registers around the chosen weight; `owner` of the chosen bit, None where none is chosen
    unused      options of the question that this format does not have (they were not used)
    """

    format: str
    label: str
    options: tuple[tuple[str, str], ...]
    packed: Packed
    restored: "ndarray"
    error: Error | None
    blocks: tuple[Error, ...]
    block_columns: int
    saturated: int
    non_finite: int
    shares: tuple[Share, ...]
    bits_per_weight: Term
    compression: Term
    sqnr: Term | None
    uniform_sqnr: Term | None
    textbook_sqnr: Term | None
    view: View
    owner: Owner | None
    unused: tuple[str, ...] = ()
