"""Moving-block bootstrap: an interval for a statistic that is no mean and no percentile, from one dependent series.

Blocks of neighbouring samples are drawn with replacement until they are as long as the series, so dependence inside a
block survives (Kuensch 1989, Ann. Stat. 17(3); Liu and Singh 1992). Sixteen blocks, as many as batches elsewhere, since
queues remember for long: blocks of length n^(1/3) would be far shorter than a busy period. Its percentile interval is
too narrow for so few blocks; it is widened by Student's t over the normal and by k / (k - 1). On M/M/1 means it then
covers 78 to 92 % where 95 are meant, less the shorter the run (hundred runs each: loads of 50, 80 and 90 %, runs worth 25
to 200 independent samples; `test_coverage` holds one of them): batch means cover more, use those where they apply.
"""

import math
import random
from collections.abc import Callable, Sequence

from pycore.stats.batches import BATCHES, SMALLEST
from pycore.stats.distributions import normal_quantile, student_quantile

RESAMPLES = 400


def moving_block(n: int, statistic: Callable[[Sequence[tuple[int, int]]], float], generator: random.Random,
                 level: float = 0.95, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Ends of the interval of `statistic` over a series of `n` samples.

    `statistic` is called with the ranges (start, stop) whose samples make up a resample, so that it may use prefix sums;
    with ((0, n),) it gives the figure of the whole. Raises ValueError below `SMALLEST` samples.
    """
    if n < SMALLEST:
        raise ValueError(f"{n} samples are fewer than {SMALLEST}")
    size = n // BATCHES
    drawn = sorted(statistic([(start, start + size) for start in starts(n - size, generator)])
                   for _ in range(resamples))
    centre = math.fsum(drawn) / resamples
    tail = (1.0 - level) / 2.0
    low = drawn[max(0, math.floor(resamples * tail) - 1)]
    high = drawn[min(resamples, math.ceil(resamples * (1.0 - tail)) + 1) - 1]
    widen = (student_quantile(1.0 - tail, BATCHES - 1) / normal_quantile(1.0 - tail)
             * math.sqrt(BATCHES / (BATCHES - 1)))
    whole = statistic(((0, n),))
    return whole + (low - centre) * widen, whole + (high - centre) * widen


def starts(last: int, generator: random.Random) -> list[int]:
    """Where 16 blocks begin, each anywhere in 0..last."""
    return [generator.randrange(last + 1) for _ in range(BATCHES)]
