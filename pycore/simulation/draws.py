"""Runs with step times drawn from what is not known of them: the spread of an answer, which explodes near saturation.

One factor a run multiplies every step. Factors are log-normal with the 10 % and 90 % quantiles of measured over predicted
times that `roofline.evidence` holds for the engine and card (whole served runs that nothing was fitted on).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from random import Random

from pycore.errors import InputError
from pycore.simulation.arrivals import standard_normal
from pycore.simulation.costs.work import StepCost, StepWork, decode_times

Z90 = 1.2815515655446004
"""The standard normal's 90 % quantile."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """A cost model whose every step takes `factor` as long."""

    cost: StepCost
    factor: float

    def step_ns(self, work: StepWork) -> int:
        return max(1, round(self.cost.step_ns(work) * self.factor))

    def decode_times(self, work: StepWork) -> Iterator[int]:
        """See `work.decode_times`."""
        return (max(1, round(length * self.factor)) for length in decode_times(self.cost, work))

    def limits_passed(self, longest: int, sequences: int, tokens: int) -> tuple[str, ...]:
        return self.cost.limits_passed(longest, sequences, tokens)


def factors(count: int, low: float, high: float, seed: int) -> tuple[float, ...]:
    """`count` factors between whose 10 % and 90 % quantiles `low` and `high` lie, to six digits (equal on every machine).

    Raises InputError unless 0 < low <= high.
    """
    if not 0 < low <= high:
        raise InputError("draws", f"{low:g} to {high:g}", "accepted: quantiles of a ratio, 0 < low <= high")
    rng, middle, sigma = Random(seed), log(low * high) / 2, log(high / low) / 2 / Z90
    return tuple(float(f"{exp(middle + sigma * standard_normal(rng)):.6g}") for _ in range(count))
