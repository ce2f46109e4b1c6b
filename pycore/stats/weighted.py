"""Mean and percentiles of samples that come with counts, such as the gaps between tokens: one step gives the same gap to
every sequence that decodes in it, so four million tokens are a few hundred thousand (value, count) pairs.

Both are ratios: samples times weight over weight. The error of a ratio R is that of the mean of w (x - R), by batch
means, over the mean weight (Crane and Iglehart 1975, Oper. Res. 23(1), for the form; batches instead of cycles).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from pycore.stats.batches import SMALLEST, batch_means, cut, error_of
from pycore.stats.bounds import bounded, effective_samples
from pycore.stats.describe import HEAD, MEAN_METHOD, PERCENTS, Description
from pycore.stats.estimates import Estimate, TooFew
from pycore.stats.percentiles import minimum_samples, percentile, rank
from pycore.stats.stationarity import Stationarity, judge

Pair = tuple[float, int]


class Ordered:
    """Pairs in ascending order of value: the sample of any rank by bisection."""

    __slots__ = ("values", "below")

    def __init__(self, pairs: Sequence[Pair]):
        ascending = sorted(pairs)
        self.values = [value for value, _ in ascending]
        self.below = list(accumulate([count for _, count in ascending]))

    @property
    def n(self) -> int:
        """Samples, counts added up."""
        return self.below[-1] if self.below else 0

    def sample(self, place: int) -> float:
        """The sample of rank `place`, from 1 to n."""
        return self.values[bisect_left(self.below, place)]

    def at_most(self, value: float) -> int:
        """Samples at or below `value`."""
        place = bisect_right(self.values, value)
        return self.below[place - 1] if place else 0

    def percentile(self, percent: float) -> float | TooFew:
        """The order statistic of rank ceil(n x percent / 100), or TooFew."""
        needed = minimum_samples(percent)
        return TooFew(n=self.n, needed=needed) if self.n < needed else self.sample(rank(self.n, percent))


def describe_weighted(pairs: Sequence[Pair], percents: Sequence[float] = PERCENTS, *, head: float = HEAD,
                      tail: float = 0.0, level: float = 0.95) -> Description:
    """`stats.describe` for (value, count) pairs in order of time; n is the sum of the counts, counts are positive."""
    if not pairs:
        return Description(n=0, mean=TooFew(n=0, needed=1), stationarity=Stationarity("no samples", 0.0, 0.0, False),
                           percentiles={percent: percentile((), percent) for percent in percents})
    settled = pairs[int(len(pairs) * head):len(pairs) - int(len(pairs) * tail)]
    verdict = judge_ratio(settled)
    everything, kept = Ordered(pairs), Ordered(settled)
    return Description(
        n=everything.n, smallest=everything.values[0], largest=everything.values[-1], stationarity=verdict,
        mean=mean_estimate(pairs, settled, verdict.refused, level),
        percentiles={percent: percentile_estimate(everything, settled, kept, percent, verdict.refused, level)
                     for percent in percents})


def judge_ratio(pairs: Sequence[Pair]) -> Stationarity:
    """Stationarity of the weighted means of 16 batches of pairs."""
    if len(pairs) < SMALLEST:
        return Stationarity(f"{len(pairs)} steps after the warm-up; a check needs {SMALLEST}", 0.0, 0.0, False)
    above, below = cut([value * count for value, count in pairs]), cut([count for _, count in pairs])
    return judge([a / b for a, b in zip(above, below, strict=True)])


def ratio(pairs: Sequence[Pair]) -> tuple[float, int]:
    """(sum of value × count / sum of counts, sum of counts)"""
    total = sum([count for _, count in pairs])
    return math.fsum([value * count for value, count in pairs]) / total, total


def mean_estimate(pairs: Sequence[Pair], settled: Sequence[Pair], refused: str, level: float) -> Estimate:
    """The weighted mean of all pairs, and its interval from the settled ones."""
    (value, total), (centre, kept) = ratio(pairs), ratio(settled)
    if refused:
        return Estimate(value=value, n=total, level=level, refused=refused, left_out=total - kept)
    batches, weight = batch_means([count * (value - centre) for value, count in settled]), kept / len(settled)
    below, above = (end / weight for end in batches.offsets(level))
    single = math.fsum([count * (value - centre) ** 2 for value, count in settled]) / kept
    error = batches.error / weight
    return Estimate(value=value, n=total, low=centre + below, high=centre + above, settled=centre,
                    effective_n=min(float(kept), single / error**2) if error else float(kept), left_out=total - kept,
                    level=level, method=MEAN_METHOD)


def percentile_estimate(everything: Ordered, settled: Sequence[Pair], kept: Ordered, percent: float, refused: str,
                        level: float) -> Estimate | TooFew:
    """A percentile of all samples, and its interval from the settled pairs (in order of time, and ordered)."""
    value, total, out = everything.percentile(percent), everything.n, everything.n - kept.n
    if isinstance(value, TooFew):
        return value
    if refused:
        return Estimate(value=value, n=total, level=level, refused=refused, left_out=out)
    middle = kept.percentile(percent)
    if isinstance(middle, TooFew):
        return Estimate(value=value, n=total, level=level, refused=middle.text, left_out=out)
    lower = kept.at_most(middle) / kept.n
    inside, outside = 1.0 - lower, -lower
    error = error_of(cut([count * (inside if sample <= middle else outside) for sample, count in settled]))[0]
    effective = effective_samples(lower, error / (kept.n / len(settled)), kept.n)
    return bounded(Estimate(value=value, n=total, level=level, left_out=out, settled=middle, effective_n=effective),
                   percent, kept.n, kept.sample)
