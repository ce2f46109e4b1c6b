"""Whether a run has a long-run value at all: an overloaded queue has none, and an interval for it would be invented.

Two signs over the means of 16 batches; together they stop two M/M/1 runs in a hundred at 50 to 90 % load (five where a
run is worth ten independent samples) and every run at 120 %:
- trend: Kendall's rank correlation with time (Mann 1945, Econometrica 13(3)), p < 1 %. Ranks, because queues are
  skewed: a trend test on the means themselves misses ramps that ranks see.
- one swing: neighbouring batch means alike (correlation above 0.7), as when load rises and falls once in the run.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from pycore.stats.batches import SMALLEST, cut, moments
from pycore.stats.distributions import normal_quantile

FALSE_ALARM = 0.01
SWING = 0.7


class Stationarity(NamedTuple):
    """`refused` is '' where nothing speaks against a long-run value, else the reason; the figures behind it beside."""

    refused: str
    trend: float  # Kendall's S over its standard deviation; 0 without trend
    correlation: float  # of neighbouring batch means
    judged: bool = True  # False: too few samples to tell

    @property
    def grows(self) -> bool:
        """Whether the samples rise through the run beyond chance: a queue that is asked for more than it serves."""
        return self.trend > normal_quantile(1.0 - FALSE_ALARM / 2.0)


def stationarity(values: Sequence[float]) -> Stationarity:
    """Judges samples in order of time, warm-up left out. Below `batches.SMALLEST` samples it refuses."""
    if len(values) < SMALLEST:
        return Stationarity(f"{len(values)} samples after the warm-up; a check needs {SMALLEST}", 0.0, 0.0, False)
    return judge(cut(values))


def judge(means: Sequence[float]) -> Stationarity:
    """The same from 16 batch means in order of time."""
    correlation = moments(means)[2]
    trend = kendall(means)
    limit = normal_quantile(1.0 - FALSE_ALARM / 2.0)
    if abs(trend) > limit:
        way = "grows" if trend > 0 else "falls"
        return Stationarity(f"it {way} through the run, so there is no long-run value", trend, correlation)
    if correlation > SWING:
        return Stationarity("the run is one swing up and down, so there is no long-run value", trend, correlation)
    return Stationarity("", trend, correlation)


def kendall(means: Sequence[float]) -> float:
    """S / sqrt(k (k - 1) (2k + 5) / 18), S = pairs that rise less pairs that fall; normal from ten means on."""
    count = len(means)
    rises = sum((later > earlier) - (later < earlier)
                for index, earlier in enumerate(means) for later in means[index + 1:])
    return rises / math.sqrt(count * (count - 1) * (2 * count + 5) / 18.0)
