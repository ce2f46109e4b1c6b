"""One line of the table that a choice is made from: a model in one scheme, size and quality, all on the same tokens."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from pycore.pack.measures import decibels
from runtime.models.transformer import Transformer
from runtime.quantbench.convert import Quantised, quantise
from runtime.quantbench.evaluate import Mean, Reference, Scores, mean
from runtime.quantbench.schemes import Rule
from runtime.quantbench.speed import decode_tokens_per_s, load_average, noisy
from runtime.quantbench.targets import targets

OTHER_BITS = 16  # what is not quantised (embedding, norms, biases) counts at 16 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What was measured of a model in one scheme.

    stored_bytes      the quantised projections: codes, scales, zeros, metadata, padding, column scales
    size_bytes        the whole model: those, projections left as they are, and everything else at 16 bits
    ratio             perplexity over the unquantised model's; an interval that holds 1 says that they cannot be told apart
    agreement         share of tokens on which both would write the same next
    decode_tokens_per_s, no_speed   tokens written in a second, or why that was not measured
    """

    weights: int
    stored_bytes: int
    size_bytes: int
    perplexity: Mean
    ratio: Mean
    divergence: Mean
    agreement: float
    weight_sqnr_db: float
    decode_tokens_per_s: float | None
    no_speed: str
    load_average: float | None

    @property
    def bits_per_weight(self) -> float:
        """Of the quantised projections."""
        return 8 * self.stored_bytes / self.weights


def exponential(of: Mean) -> Mean:
    """e to a mean and its interval: a mean of losses as a perplexity."""
    low, high = (None if end is None else math.exp(end) for end in (of.low, of.high))
    return Mean(value=math.exp(of.value), low=low, high=high)


def other_bytes(model: nn.Module) -> int:
    """Everything but the projections' weights, at 16 bits; a tied head counts once."""
    inside = {id(target.module.weight) for target in targets(model) if not target.quantised}
    return sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in inside) * OTHER_BITS // 8


def unquantised(model: nn.Module, reference: Reference) -> Line:
    """The line of the model as it is, its projections at 16 bits."""
    weights = sum(target.weight().numel() for target in targets(model))
    return line(model, reference, reference.scores, weights, weights * OTHER_BITS // 8, math.inf, other_bytes(model))


def quantised(model: nn.Module, reference: Reference, rules: Sequence[Rule],
              calibration: Tensor | None) -> tuple[Line, tuple[Quantised, ...]]:
    """The line of a copy of the model quantised so, and what became of each projection. Raises InputError."""
    other = other_bytes(model)
    untouched = {target.name: target.weight().numel() for target in targets(model)}
    made = copy.deepcopy(model)
    found = quantise(made, rules, calibration=calibration)
    left = sum(untouched[name] for name in set(untouched) - {one.name for one in found})
    sqnr = decibels(math.fsum(one.signal for one in found), math.fsum(one.noise for one in found))
    return line(made, reference, reference.scores_of(made), sum(one.weights for one in found),
                sum(one.stored_bytes for one in found), sqnr, other + left * OTHER_BITS // 8), found


def line(model: nn.Module, reference: Reference, scores: Scores, weights: int, stored: int, sqnr: float, other: int) -> Line:
    """A line from scores and sizes; the speed only where the machine is quiet and the model one of ours."""
    reason = noisy() if isinstance(model, Transformer) else "not measured: not one of our own models"
    return Line(weights=weights, stored_bytes=stored, size_bytes=stored + other, weight_sqnr_db=sqnr,
                perplexity=exponential(mean(scores.losses)), ratio=exponential(mean(scores.losses - reference.losses)),
                divergence=mean(scores.divergences), agreement=float(scores.agreements.mean()), no_speed=reason,
                decode_tokens_per_s=None if reason else decode_tokens_per_s(model), load_average=load_average())
