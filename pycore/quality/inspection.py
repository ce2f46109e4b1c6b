"""Weights in one format: codes, bytes, what they stand for, and the error."""

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.ledger import Term, fact, term
from pycore.pack import formats, measures
from pycore.pack.formats import Format, format_of
from pycore.pack.measures import Error
from pycore.pack.packed import Packed
from pycore.pack.sums import folded_sum
from pycore.quality.prepared import Methods, Options, Prepared, prepared
from pycore.quality.registers import Share, shares
from pycore.quality.rounding import blocks
from pycore.quality.weights import Weights

if TYPE_CHECKING:
    from numpy import ndarray

MOST_BLOCKS = 8192
BITS_BEFORE = 16
CODE_BITS = {"int8": 8, "int4": 4, "q4_0": 4, "q4_1": 4, "q5_0": 5, "q8_0": 8, "q4_k": 4, "q6_k": 6}  # uniform grids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inspection:
    """What a format made of the weights.

    format      its id and `label`; `formula` makes a weight from the fields of the register view; `options` as they were
                used: (name, written value), defaults included
    packed      codes, scales, zeros and the bytes: see `pycore.pack.packed.Packed`
    restored    float32 (rows, columns): what the bytes stand for, in the weights' own space (rotation and scaling undone)
    error       over all weights; None where a number is not finite
    blocks      the error of every group that shares a scale, row after row; () where it could not be measured or where there
                are more than MOST_BLOCKS. `block_columns`: weights in such a group
    saturated   weights that lie beyond the outermost level of their scale by more than half of its step
    non_finite  NaN or infinity among the weights (taken only where the format has codes for them)
    shares      stored bits by role: codes, scales, zeros, metadata, padding
    bits_per_weight, compression     terms; compression is against 16-bit weights
    sqnr        None where it is not measurable (all weights zero, or not finite); infinite where nothing was lost
    uniform_sqnr  what one uniform quantiser of as many bits over all weights would reach (their crest factor); None for
                formats whose codes are no uniform grid
    textbook_sqnr 6.02 dB a bit; None as above
    notes       what the methods chose on the way (AWQ's alpha)
    unused      options of the question that this format does not have (they were not used)
    """

    format: str
    label: str
    formula: str
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
    notes: tuple[str, ...] = ()

    @property
    def lossless(self) -> bool:
        """Whether every weight came back as it was."""
        return self.error is not None and self.error.max_error == 0


@functools.lru_cache(maxsize=8)
def inspect(weights: Weights, format_id: str, options: Options, methods: Methods) -> Inspection:
    """The weights in a format; equal questions give the same object. Raises InputError."""
    import numpy as np

    one = format_of(format_id)
    non_finite = int((~np.isfinite(weights.values)).sum())
    ready = prepared(weights.values, methods, format_id, options) if methods.any else None
    values = ready.values if ready else weights.values
    packed = formats.quantise(format_id, values, **dict(options))
    with np.errstate(over="ignore", invalid="ignore"):
        restored = formats.dequantise(packed)
        restored = ready.undo(restored) if ready else restored
    known = not non_finite and bool(np.isfinite(restored).all())
    error = measures.error(weights.values, restored) if known else None
    block = block_columns(one, packed)
    count = packed.rows * -(-packed.columns // block)
    return Inspection(
        format=one.id, label=one.label, formula=one.formula, options=options_used(one, packed), packed=packed,
        restored=restored, error=error, block_columns=block, non_finite=non_finite, shares=shares(packed),
        blocks=block_errors(weights, restored, block, ready, (format_id, options)) if known and count <= MOST_BLOCKS else (),
        saturated=formats.saturated(values, packed), notes=ready.notes if ready else (),
        bits_per_weight=bits_term(packed), compression=measures.compression(
            weights=packed.weights, stored_bytes=len(packed.data), bits_before=BITS_BEFORE),
        **theory(weights, one, error))


def block_errors(weights: Weights, restored: "ndarray", block: int, ready: Prepared | None,
                 asked: tuple[str, Options]) -> tuple[Error, ...]:
    """The error of every group; a method moves other rows than those set by hand."""
    return measures.by_block(weights.values, restored, block) if ready else blocks(weights, restored, block, *asked)


def theory(weights: Weights, one: Format, error: Error | None) -> dict[str, Term | None]:
    """SQNR as measured, and as a uniform quantiser would have it."""
    import numpy as np

    squares = weights.values.astype(np.float64).reshape(-1) ** 2
    power = float(folded_sum(squares)) / weights.count if error else 0.0
    if not error or not power:
        return {"sqnr": None, "uniform_sqnr": None, "textbook_sqnr": None}
    measured = sqnr_db(mean_square=power, mean_squared_error=error.mean_squared_error)
    bits = CODE_BITS.get(one.id)
    if bits is None:
        return {"sqnr": measured, "uniform_sqnr": None, "textbook_sqnr": None}
    crest = crest_factor(largest=float(np.abs(weights.values).max()), root_mean_square=math.sqrt(power))
    return {"sqnr": measured, "uniform_sqnr": measures.uniform_sqnr_db(bits=bits, crest=crest),
            "textbook_sqnr": measures.textbook_sqnr_db(bits=bits)}


@term("SQNR", "dB")
def sqnr_db(mean_square, mean_squared_error):
    "10 × log10(mean_square ÷ mean_squared_error)"
    return measures.decibels(mean_square, mean_squared_error)


@term("Crest factor", "")
def crest_factor(largest, root_mean_square):
    "largest ÷ root_mean_square"
    return largest / root_mean_square


@term("Bits per weight", "bits")
def bits_per_weight(stored_bytes, weights):
    "8 × stored_bytes ÷ weights"
    return 8 * stored_bytes / weights


def bits_term(packed: Packed) -> Term:
    """True bits per weight: everything that is stored counts."""
    stored = fact("Stored", len(packed.data), "B", basis="definition", source="the packed bytes themselves: codes, scales, "
                                                                              "zeros, metadata and padding")
    return bits_per_weight(stored_bytes=stored, weights=packed.weights)


def block_columns(one: Format, packed: Packed) -> int:
    """How many weights of a row share a scale."""
    options = dict(packed.options)
    group = options.get("group") or options.get("block") or one.group
    return min(group, packed.columns) if group > 0 else packed.columns


def options_used(one: Format, packed: Packed) -> tuple[tuple[str, str], ...]:
    """The format's own options as they were used, in words."""
    names = [name for name, _ in one.options]
    return tuple((name, ("yes" if value else "no") if isinstance(value, bool) else str(value))
                 for name, value in packed.options if name in names)
