"""The interval of a percentile of dependent samples: order statistics at the effective number of samples.

Batch means of the indicator "below the percentile" say how many independent samples the run is worth there (variance of
the indicator over that of its mean; Heidelberger and Lewis 1984, Oper. Res. 32(1)). Ranks are taken as for that many
independent samples (`percentiles.interval_ranks`), less the share (z / t)^2: the price of estimating that number from 16
batches. Where the tail holds too few for an upper bound there is none: `high` is infinite.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from pycore.stats.batches import BATCHES
from pycore.stats.distributions import normal_quantile, student_quantile
from pycore.stats.estimates import Estimate
from pycore.stats.percentiles import interval_ranks

METHOD = "order statistics at the effective number of samples"


def effective_samples(below: float, error: float, n: int) -> float:
    """n_eff = s × (1 − s) / error², at most n: `below` is the share s of samples at or below the percentile (more than
    p where samples tie), `error` its standard error."""
    return min(float(n), below * (1.0 - below) / error**2) if error else float(n)


def bounded(estimate: Estimate, percent: float, n: int, sample: Callable[[int], float]) -> Estimate:
    """`estimate` of a percentile with its bounds, from `n` settled samples worth `estimate.effective_n`; `sample(rank)`
    gives the settled one of that rank (from 1). Refused where they are worth too few for any bound."""
    t, z = student_quantile(0.5 + estimate.level / 2.0, BATCHES - 1), normal_quantile(0.5 + estimate.level / 2.0)
    trusted = estimate.effective_n * (z / t) ** 2
    lower, upper = interval_ranks(trusted, percent, estimate.level)
    if lower is None:
        few = f"worth {estimate.effective_n:.0f} independent samples, too few to bound a percentile"
        return replace(estimate, settled=None, refused=few)
    # rounded, so that the last bit of a product never moves a rank
    low = sample(max(1, math.ceil(round(lower * n / trusted, 6))))
    high = math.inf if upper is None else sample(min(n, math.ceil(round(upper * n / trusted, 6))))
    return replace(estimate, low=low, high=high, method=METHOD)
