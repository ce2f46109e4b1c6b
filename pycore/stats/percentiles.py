"""Order-statistic percentiles: always a value that occurred, never one between two.

Percentile p of n ordered samples is the one of rank ceil(n x p / 100): of 10, 20, 30 the 99th is 30 (tools that round
the rank down or interpolate say 20 or 29.8). With fewer than `minimum_samples` there is no sample beyond it and hence
no number: a p99 needs 100.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from pycore.stats.distributions import binomial_below
from pycore.stats.estimates import TooFew


def share(percent: float) -> Fraction:
    """`percent` as an exact share: 99.9 is 999/1000, not the float beside it. Raises ValueError outside (0, 100)."""
    exact = Fraction(str(percent)) / 100
    if not 0 < exact < 1:
        raise ValueError(f"percentile {percent} is not between 0 and 100")
    return exact


def rank(n: int, percent: float) -> int:
    """ceil(n × percent / 100), the rank (from 1) of the order statistic that is the percentile."""
    return math.ceil(n * share(percent))


def minimum_samples(percent: float) -> int:
    """The n from which one sample is expected beyond the percentile: 1 / min(p, 1 - p); p50 2, p90 10, p99 100."""
    exact = share(percent)
    return math.ceil(1 / min(exact, 1 - exact))


def percentile(ordered: Sequence[float], percent: float) -> float | TooFew:
    """The order statistic of rank `rank(n, percent)` of samples in ascending order, or `TooFew`."""
    needed = minimum_samples(percent)
    if len(ordered) < needed:
        return TooFew(n=len(ordered), needed=needed)
    return ordered[rank(len(ordered), percent) - 1]


def interval_ranks(n: float, percent: float, level: float = 0.95) -> tuple[int | None, int | None]:
    """Ranks r < s (from 1) of independent samples: P(X_r <= percentile < X_s) >= `level`, whatever the distribution.

    P(X_r <= x_p) = P(at least r of n fall below) = 1 - B(r - 1), and P(x_p < X_s) = B(s - 1), B binomial (n, p): each
    tail is given (1 - level) / 2 at most (David and Nagaraja 2003, Order Statistics, section 7.1). None in place of a
    rank where n is too small on that side (the upper one of p99 at 95 % takes n >= 368). `n` may be an
    effective number: ranks are then out of that many.
    """
    p, tail = float(share(percent)), (1.0 - level) / 2.0
    top = math.floor(n)
    lower = last(lambda r: binomial_below(r - 1, n, p) <= tail, 0, top)
    upper = 1 + last(lambda s: binomial_below(s - 1, n, p) < 1.0 - tail, 0, top)
    return lower if lower >= 1 else None, upper if upper <= top else None


def last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The largest integer in low..high for which `holds`, true up to it and false after; `low` is taken as true."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
