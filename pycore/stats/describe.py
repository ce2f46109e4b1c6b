"""The mean and percentiles of one series with intervals that survive dependence between its samples.

The figures are over all samples; the intervals stand on the settled part: the first tenth is left out as warm-up (and,
where asked, the last tenth, when requests have stopped coming and the rest of them run undisturbed). The cut does not
look at the data. MSER-5 (White, Cobb and Spratt 2000), which does, cuts after a busy spell and keeps the calm after it:
on M/M/1 runs worth 25 independent samples its intervals covered 82 %, those after the blind tenth 92 % (as
`test_coverage` holds). Warm-up from empty, a likely state, matters little besides (Grassmann 2008, Prob. Eng. Inf.
Sci. 22, "Warm-up periods in simulation can be detrimental").

A percentile's interval is in `bounds`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pycore.stats.batches import batch_means, worth
from pycore.stats.bounds import bounded, effective_samples
from pycore.stats.estimates import Estimate, TooFew
from pycore.stats.percentiles import percentile
from pycore.stats.stationarity import Stationarity, stationarity

HEAD = 0.1
PERCENTS = (50, 90, 95, 99)
MEAN_METHOD = "means of 16 batches, corrected for correlation and skewness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A series in figures, in the unit of its samples. `percentiles` maps percent to its figure."""

    n: int
    mean: Estimate | TooFew
    percentiles: dict[float, Estimate | TooFew]
    stationarity: Stationarity
    smallest: float | None = None
    largest: float | None = None


def describe(values: Sequence[float], percents: Sequence[float] = PERCENTS, *, head: float = HEAD, tail: float = 0.0,
             level: float = 0.95) -> Description:
    """Describes samples in order of time; `head` and `tail` are the shares of them that no interval rests on."""
    if not values:
        none = {percent: percentile((), percent) for percent in percents}
        return Description(n=0, mean=TooFew(n=0, needed=1), percentiles=none,
                           stationarity=Stationarity("no samples", 0.0, 0.0, False))
    settled = values[int(len(values) * head):len(values) - int(len(values) * tail)]
    verdict = stationarity(settled)
    ordered, settled_ordered = sorted(values), sorted(settled)
    return Description(
        n=len(values), smallest=ordered[0], largest=ordered[-1], stationarity=verdict,
        mean=mean_estimate(values, settled, verdict.refused, level),
        percentiles={percent: percentile_estimate(ordered, settled, settled_ordered, percent, verdict.refused, level)
                     for percent in percents})


def mean_estimate(values: Sequence[float], settled: Sequence[float], refused: str, level: float) -> Estimate:
    """The mean of `values`, and the interval of the long-run mean from `settled` unless that is refused."""
    value, out = math.fsum(values) / len(values), len(values) - len(settled)
    if refused:
        return Estimate(value=value, n=len(values), level=level, refused=refused, left_out=out)
    batches = batch_means(settled)
    below, above = batches.offsets(level)
    return Estimate(value=value, n=len(values), low=batches.mean + below, high=batches.mean + above,
                    settled=batches.mean, effective_n=worth(settled, batches), left_out=out, level=level,
                    method=MEAN_METHOD)


def percentile_estimate(ordered: Sequence[float], settled: Sequence[float], settled_ordered: Sequence[float],
                        percent: float, refused: str, level: float) -> Estimate | TooFew:
    """A percentile of all samples, and its interval from the settled ones (in order of time, and ascending)."""
    value, out = percentile(ordered, percent), len(ordered) - len(settled)
    if isinstance(value, TooFew):
        return value
    if refused:
        return Estimate(value=value, n=len(ordered), level=level, refused=refused, left_out=out)
    middle = percentile(settled_ordered, percent)
    if isinstance(middle, TooFew):
        return Estimate(value=value, n=len(ordered), level=level, refused=middle.text, left_out=out)
    below = batch_means([float(sample <= middle) for sample in settled])
    effective = effective_samples(below.mean, below.error, len(settled))
    return bounded(Estimate(value=value, n=len(ordered), level=level, left_out=out, settled=middle,
                            effective_n=effective), percent, len(settled), lambda place: settled_ordered[place - 1])
