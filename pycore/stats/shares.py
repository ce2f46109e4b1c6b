"""Intervals for shares (goodput, hits, drops): Wilson's, which stays inside 0..1 and works at 0 and at all of n."""

import math

from pycore.stats.distributions import normal_quantile


def wilson(successes: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """(p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n) (Wilson 1927, J. Am. Stat. Assoc. 22).

    For independent trials; `n` may be an effective number, `successes` then its share of it. Raises ValueError unless
    0 <= successes <= n and n > 0.
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} is not a share")
    z = normal_quantile(0.5 + level / 2.0)
    p, spread = successes / n, z * z / n
    half = z * math.sqrt(p * (1.0 - p) / n + spread / (4.0 * n))
    low, high = (p + spread / 2.0 - half) / (1.0 + spread), (p + spread / 2.0 + half) / (1.0 + spread)
    return (0.0 if successes == 0 else max(0.0, low)), (1.0 if successes == n else min(1.0, high))
