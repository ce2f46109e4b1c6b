"""Quantiles of the normal, Student and binomial distributions from the standard library's `lgamma` alone.

The tails matter here: tables that stop at ten degrees of freedom and go on with 1.96 make twelve repeats look surer
than they are (11 degrees need 2.201).
"""

import functools
import math
from statistics import NormalDist

ACCURACY = 1e-15
STEPS = 20_000


def normal_quantile(probability: float) -> float:
    """z with P(Z <= z) = `probability`, 0 < probability < 1 (Wichura 1988, AS 241, as `statistics.NormalDist`)."""
    return NormalDist().inv_cdf(probability)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b), a, b > 0, 0 <= x <= 1 (DLMF 8.17.22, continued fraction)."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return front / a * beta_fraction(a, b, x)


def beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of I_x(a, b) by Lentz's method (Thompson and Barnett 1986)."""
    tiny = 1e-300
    numerator, denominator = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    denominator = 1.0 / (denominator if denominator else tiny)
    value = denominator
    for m in range(1, STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for part in (even, odd):
            denominator = 1.0 / ((1.0 + part * denominator) or tiny)
            numerator = (1.0 + part / numerator) or tiny
            change = denominator * numerator
            value *= change
        if abs(change - 1.0) < ACCURACY:
            break
    return value


@functools.lru_cache(maxsize=256)
def student_quantile(probability: float, freedom: float) -> float:
    """t with P(T <= t) = `probability` for `freedom` degrees of freedom, by bisection of the distribution function."""
    if probability < 0.5:
        return -student_quantile(1.0 - probability, freedom)
    low, high = 0.0, 1.0
    while student_below(high, freedom) < probability:
        high *= 2.0
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if student_below(middle, freedom) < probability else (low, middle)
    return (low + high) / 2.0


def student_below(t: float, freedom: float) -> float:
    """P(T <= t), t >= 0: 1 - I_x(f/2, 1/2) / 2 at x = f / (f + t^2) (DLMF 8.17.5 and its use for Student's t)."""
    return 1.0 - incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t)) / 2.0


def binomial_below(count: int, trials: float, probability: float) -> float:
    """P(X <= `count`) of a binomial of `trials` (an effective number need not be whole): I_(1-p)(n - k, k + 1)."""
    if count < 0 or count >= trials:
        return float(count >= trials)
    return incomplete_beta(trials - count, count + 1.0, 1.0 - probability)
