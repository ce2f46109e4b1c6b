"""Fit a few positive parameters to measured times: Nelder and Mead's simplex on the median-like mean of |log ratio|.

Deterministic: no random start, results rounded to 3 significant digits before they are used or written.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Loss = Callable[[list[float]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Residuals:
    """How far a fit is from its rows: |predicted/measured - 1| in percent, and quantiles of measured/predicted."""

    rows: int
    median_error_pct: float
    p90_error_pct: float
    low: float  # 10 % quantile of measured / predicted
    high: float  # 90 % quantile


def rounded(value: float, digits: int = 3) -> float:
    """`value` to `digits` significant digits."""
    return float(f"{value:.{digits}g}")


def simplex(loss: Loss, start: Sequence[float], *, step: float = 0.4, rounds: int = 600) -> tuple[float, list[float]]:
    """The lowest (loss, point) that the downhill simplex finds from `start` (Nelder and Mead 1965).

    Stops after `rounds` or when the losses of the simplex agree to 1e-6.
    """
    size = len(start)
    points = [list(start)] + [[x + step * (i == j) for j, x in enumerate(start)] for i in range(size)]
    scored = sorted((loss(point), point) for point in points)
    for _ in range(rounds):
        if scored[-1][0] - scored[0][0] < 1e-6:
            break
        middle = [math.fsum(point[j] for _, point in scored[:-1]) / size for j in range(size)]
        worst_loss, worst = scored[-1]
        scored[-1:] = _moved(loss, scored, middle, worst_loss, worst)
        scored.sort()
    return scored[0]


def _moved(loss: Loss, scored: list, middle: list[float], worst_loss: float, worst: list[float]) -> list:
    """The point that replaces the worst one: reflected, expanded or contracted; a shrunk simplex when none helps."""

    def along(scale: float) -> tuple[float, list[float]]:
        point = [m + scale * (w - m) for m, w in zip(middle, worst, strict=True)]
        return loss(point), point

    reflected = along(-1.0)
    if reflected[0] < scored[0][0]:
        return [min(reflected, along(-2.0))]
    if reflected[0] < scored[-2][0]:
        return [reflected]
    contracted = along(0.5 if reflected[0] >= worst_loss else -0.5)
    if contracted[0] < min(reflected[0], worst_loss):
        return [contracted]
    best = scored[0][1]
    for index in range(1, len(scored) - 1):
        point = [(a + b) / 2 for a, b in zip(scored[index][1], best, strict=True)]
        scored[index] = (loss(point), point)
    point = [(a + b) / 2 for a, b in zip(worst, best, strict=True)]
    return [(loss(point), point)]


def fit(times: Callable, measured: object, starts: Sequence[Sequence[float]], bounds: Sequence[tuple[float, float]],
        ) -> tuple[list[float], Residuals]:
    """Positive parameters p that bring times(p) nearest to `measured` (numpy arrays of seconds), with residuals.

    The loss is the mean of min(|log(predicted / measured)|, 0.7): outliers beyond a factor 2 all count the same.
    """
    import numpy

    def clipped(logs: list[float]) -> list[float]:
        return [min(max(math.exp(x), low), high) for x, (low, high) in zip(logs, bounds, strict=True)]

    def loss(logs: list[float]) -> float:
        ratio = numpy.abs(numpy.log(times(clipped(logs)) / measured))
        return float(numpy.minimum(ratio, 0.7).mean())

    found = [simplex(loss, [math.log(x) for x in start]) for start in starts]
    parameters = [rounded(x) for x in clipped(min(found)[1])]
    return parameters, residuals(times(parameters), measured)


def residuals(predicted: object, measured: object) -> Residuals:
    """Residuals of predicted against measured times (numpy arrays of the same length)."""
    import numpy

    error = 100 * numpy.abs(predicted / measured - 1)
    ratio = measured / predicted
    return Residuals(rows=len(error), median_error_pct=rounded(float(numpy.median(error))),
                     p90_error_pct=rounded(float(numpy.quantile(error, 0.9))),
                     low=rounded(float(numpy.quantile(ratio, 0.1))), high=rounded(float(numpy.quantile(ratio, 0.9))))
