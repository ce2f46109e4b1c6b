"""Figures of a run as explained numbers: a Term each, with its interval as the Term's range and its evidence as note."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pycore.ledger import Term, term
from pycore.stats.describe import Description
from pycore.stats.estimates import Estimate, TooFew
from pycore.stats.weighted import Ordered

SIMULATED = "simulated run"


@term("Mean", "s", source=SIMULATED)
def mean_seconds(total_s, samples):
    """total_s / samples"""
    return total_s / samples


@term("Percentile", "s", source=SIMULATED)
def percentile_seconds(percent, samples, sample_s):
    """the sample_s of rank ⌈samples × percent / 100⌉ in ascending order"""
    return sample_s


@term("Rate", "/s", source=SIMULATED)
def rate(count, makespan_s):
    """count / makespan_s"""
    return count / makespan_s if makespan_s else 0.0


@term("Share", "", source=SIMULATED)
def share_of(part, whole):
    """part / whole"""
    return part / whole if whole else 0.0


@term("Mean a step", "", source=SIMULATED)
def per_step(total, steps):
    """total / steps"""
    return total / steps if steps else 0.0


@term("Count", "", source=SIMULATED)
def tally(counted):
    """counted over the whole run"""
    return counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One latency over a run. `lost`: requests that have none because they were dropped or did not get that far; the
    figures are of the others, so read them beside it (`counting_lost` takes the lost for never).

    `mean` and `percentiles` are Terms in seconds whose range is the 95 % interval of the long-run value, or TooFew.
    `estimates` holds the same figures as plain estimates. `refused`: why there are no intervals, '' where there are.
    `ordered`: (seconds, how often) ascending, values once each.
    """

    name: str
    title: str
    n: int
    lost: int
    mean: Term | TooFew
    percentiles: dict[float, Term | TooFew]
    estimates: Description
    refused: str
    ordered: tuple[tuple[float, int], ...]

    def counting_lost(self, percent: float) -> float | TooFew:
        """The percentile over all requests, a lost one counting as infinitely late; seconds, or inf."""
        return Ordered(self.ordered + ((math.inf, self.lost),) * bool(self.lost)).percentile(percent)

    def cdf(self, points: int = 200) -> list[tuple[float, float]]:
        """(seconds, share of samples at or below), at most `points` + 1 of them and the extremes among them."""
        steps, seen, shown = [], 0, -1
        for value, count in self.ordered:
            seen += count
            place = seen * points // self.n
            if place > shown:
                steps.append((value, seen / self.n))
                shown = place
        return steps if not steps or steps[-1][1] == 1.0 else [*steps, (self.ordered[-1][0], 1.0)]


def distribution(name: str, title: str, described: Description, pairs: Iterable[tuple[float, int]],
                 lost: int) -> Distribution:
    """The figures of one latency (seconds) as Terms; `pairs` are its samples with counts, in any order."""
    counts: dict[float, int] = {}
    for value, count in pairs:
        counts[value] = counts.get(value, 0) + count
    mean = described.mean
    if isinstance(mean, Estimate):
        mean = explained(mean_seconds(mean.value * described.n, described.n).renamed(f"Mean {title.lower()}"), mean)
    percentiles = {percent: figure if isinstance(figure, TooFew) else explained(
        percentile_seconds(percent, described.n, figure.value).renamed(f"p{percent:g} {title.lower()}"), figure)
        for percent, figure in described.percentiles.items()}
    return Distribution(name=name, title=title, n=described.n, lost=lost, mean=mean, percentiles=percentiles,
                        estimates=described, refused=described.stationarity.refused,
                        ordered=tuple(sorted(counts.items())))


def explained(figure: Term, estimate: Estimate) -> Term:
    """`figure` with the interval and the evidence of its estimate. Where the run's own figure lies outside the interval
    of the long-run value (a slow start weighs in), the range is left as it is: it is about the long run."""
    return replace(figure, value=estimate.value, low=estimate.low, high=estimate.high, note=estimate.evidence)
