"""Mean and percentiles of samples that come with counts, such as the gaps between tokens: one step gives the same gap to
every sequence that decodes in it, so four million tokens are a few hundred thousand (value, count) pairs.

Both are ratios: samples times weight over weight. The error of a ratio R is that of the mean of w (x - R), by batch
means, over the mean weight (Crane and Iglehart 1975, Oper. Res. 23(1), for the form; batches instead of cycles).
"""

import math
from collections.abc import Sequence

from pycore.stats.batches import SMALLEST, BatchMeans, batch_means, cut
from pycore.stats.bounds import bounded, effective_samples
from pycore.stats.describe import HEAD, MEAN_METHOD, PERCENTS, Description
from pycore.stats.estimates import Estimate, TooFew
from pycore.stats.percentiles import weighted_percentile
from pycore.stats.stationarity import Stationarity, judge

Pair = tuple[float, int]


def describe_weighted(pairs: Sequence[Pair], percents: Sequence[float] = PERCENTS, *, head: float = HEAD,
                      tail: float = 0.0, level: float = 0.95) -> Description:
    """`stats.describe` for (value, count) pairs in order of time; n is the sum of the counts, counts are positive."""
    total = sum(count for _, count in pairs)
    if not total:
        return Description(n=0, mean=TooFew(n=0, needed=1), stationarity=Stationarity("no samples", 0.0, 0.0, False),
                           percentiles={percent: weighted_percentile((), percent) for percent in percents})
    settled = pairs[int(len(pairs) * head):len(pairs) - int(len(pairs) * tail)]
    verdict = judge_ratio(settled)
    ordered = sorted(pairs)
    return Description(
        n=total, smallest=ordered[0][0], largest=ordered[-1][0], stationarity=verdict,
        mean=mean_estimate(pairs, settled, verdict.refused, level),
        percentiles={percent: percentile_estimate(ordered, settled, percent, verdict.refused, level)
                     for percent in percents})


def judge_ratio(pairs: Sequence[Pair]) -> Stationarity:
    """Stationarity of the weighted means of 16 batches of pairs."""
    if len(pairs) < SMALLEST:
        return Stationarity(f"{len(pairs)} steps after the warm-up; a check needs {SMALLEST}", 0.0, 0.0, False)
    above, below = cut([value * count for value, count in pairs]), cut([count for _, count in pairs])
    return judge([a / b for a, b in zip(above, below, strict=True)])


def ratio(pairs: Sequence[Pair]) -> float:
    """sum of value × count / sum of counts"""
    return math.fsum(value * count for value, count in pairs) / sum(count for _, count in pairs)


def ratio_error(pairs: Sequence[Pair], centre: float) -> tuple[BatchMeans, float]:
    """Batch means of count × (value - centre), and the mean count they are to be divided by."""
    return (batch_means([count * (value - centre) for value, count in pairs]),
            sum(count for _, count in pairs) / len(pairs))


def mean_estimate(pairs: Sequence[Pair], settled: Sequence[Pair], refused: str, level: float) -> Estimate:
    """The weighted mean of all pairs, and its interval from the settled ones."""
    total = sum(count for _, count in pairs)
    out = total - sum(count for _, count in settled)
    if refused:
        return Estimate(value=ratio(pairs), n=total, level=level, refused=refused, left_out=out)
    centre = ratio(settled)
    batches, weight = ratio_error(settled, centre)
    below, above = (end / weight for end in batches.offsets(level))
    single = math.fsum(count * (value - centre) ** 2 for value, count in settled) / (total - out)
    error = batches.error / weight
    effective = min(float(total - out), single / error**2) if error else float(total - out)
    return Estimate(value=ratio(pairs), n=total, low=centre + below, high=centre + above, settled=centre,
                    effective_n=effective, left_out=out, level=level, method=MEAN_METHOD)


def percentile_estimate(ordered: Sequence[Pair], settled: Sequence[Pair], percent: float, refused: str,
                        level: float) -> Estimate | TooFew:
    """A percentile of all samples, and its interval from the settled pairs (in order of time)."""
    value, total = weighted_percentile(ordered, percent), sum(count for _, count in ordered)
    if isinstance(value, TooFew):
        return value
    kept = sum(count for _, count in settled)
    if refused:
        return Estimate(value=value, n=total, level=level, refused=refused, left_out=total - kept)
    ascending = sorted(settled)
    middle = weighted_percentile(ascending, percent)
    if isinstance(middle, TooFew):
        return Estimate(value=value, n=total, level=level, refused=middle.text, left_out=total - kept)
    below = [(float(sample <= middle), count) for sample, count in settled]
    lower = ratio(below)
    batches, weight = ratio_error(below, lower)
    effective = effective_samples(lower, batches.error / weight, kept)
    return bounded(Estimate(value=value, n=total, level=level, left_out=total - kept, settled=middle,
                            effective_n=effective), percent, kept, lambda place: at(ascending, place))


def at(ascending: Sequence[Pair], place: int) -> float:
    """The sample of rank `place` (from 1) among pairs in ascending order."""
    seen = 0
    for value, count in ascending:
        seen += count
        if seen >= place:
            return value
    return ascending[-1][0]
