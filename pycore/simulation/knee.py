"""Where a rate sweep bends: the knee, the rate at which the queue no longer settles, and the goodput cliff.

    points = [point(rate, measure(result, slo)) for rate, result in runs]
    found = bend(points)
    found.knee, found.saturation, found.cliff       # Terms in requests/s with the neighbouring rates as range, or None

A sweep knows only the rates it tried, so each answer is a bracket between two of them, never a point in between. What
the sweep does not reach is None, and `found.remarks` says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pycore.ledger import Range, Term, term
from pycore.simulation.metrics import Metrics

ATTAINMENT = 0.9
"""Share of requests within their targets that the cliff is drawn at, as DistServe's goodput (Zhong et al., OSDI 2024)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One rate of a sweep: requests/s offered and finished, mean seconds, goodput. `settles`: True, False (the time to
    first token grows through the run), None (too few requests to tell)."""

    rate_per_s: float
    finished_per_s: float
    mean_e2e_s: float | None
    settles: bool | None
    good_share: float
    good_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bend:
    """What a sweep found. `points` in order of rate."""

    points: tuple[Point, ...]
    knee: Term | None
    saturation: Term | None
    cliff: Term | None
    best_goodput: Term | None
    remarks: tuple[str, ...]


@term("Knee", "requests/s", source="Kleinrock 1979, Power and deterministic rules of thumb, ICC '79")
def knee_rate(before, rate_per_s, after):
    """the rate_per_s of most power: requests finished a second over their mean time in the system"""
    return Range(rate_per_s, before, after)


@term("Saturation", "requests/s", source="simulated sweep")
def saturation_rate(settles_at, grows_from):
    """the highest rate before the queue grows through the whole run, at which it still settles_at"""
    return Range(settles_at, settles_at, grows_from)


@term("Goodput cliff", "requests/s", source="Zhong et al. 2024, DistServe, OSDI")
def cliff_rate(holds_at, fails_from, attainment):
    """the highest rate, holds_at, up to which a share attainment of all requests meets its targets"""
    return Range(holds_at, holds_at, fails_from)


@term("Most goodput", "requests/s", source="simulated sweep")
def best_rate(good_per_s, rate_per_s):
    """the largest good_per_s of the sweep"""
    return good_per_s


def point(rate_per_s: float, metrics: Metrics) -> Point:
    """What a run at one rate says."""
    ttft, e2e = metrics.latencies["ttft"], metrics.latencies["e2e"]
    verdict = ttft.estimates.stationarity
    settles = not verdict.grows if verdict.judged else None
    return Point(rate_per_s=rate_per_s, finished_per_s=metrics.requests_per_s.value,
                 mean_e2e_s=e2e.mean.value if isinstance(e2e.mean, Term) else None, settles=settles,
                 good_share=metrics.goodput.share.value, good_per_s=metrics.goodput.per_s.value)


def bend(points: Sequence[Point], attainment: float = ATTAINMENT) -> Bend:
    """Knee, saturation and cliff of a sweep of at least three rates; fewer leave all of them None."""
    points = tuple(sorted(points, key=lambda one: one.rate_per_s))
    if len(points) < 3:
        return Bend(points=points, knee=None, saturation=None, cliff=None, best_goodput=None,
                    remarks=("a sweep needs three rates to bend",))
    remarks: list[str] = []
    best = max(points, key=lambda one: one.good_per_s)
    return Bend(points=points, knee=knee(points, remarks), saturation=saturation(points, remarks),
                cliff=cliff(points, attainment, remarks), best_goodput=best_rate(best.good_per_s, best.rate_per_s),
                remarks=tuple(remarks))


def knee(points: Sequence[Point], remarks: list[str]) -> Term | None:
    """The rate of most power between its neighbours; none where power still rises at the end, or falls from the start."""
    power = [one.finished_per_s / one.mean_e2e_s if one.mean_e2e_s else 0.0 for one in points]
    at = power.index(max(power))
    if at in (0, len(points) - 1):
        side = "lowest" if at == 0 else "highest"
        remarks.append(f"the knee lies beyond the {side} rate, {points[at].rate_per_s:g}/s")
        return None
    return knee_rate(*(one.rate_per_s for one in points[at - 1:at + 2]))


def saturation(points: Sequence[Point], remarks: list[str]) -> Term | None:
    """Between the last rate that settles and the next, from which none does. A single run that seems to grow below a
    rate that settles is a false alarm."""
    if all(one.settles is None for one in points):
        remarks.append("too few requests a rate to tell whether the queue settles")
        return None
    return border(points, lambda one: one.settles is not False, saturation_rate, "queues settle", remarks)


def cliff(points: Sequence[Point], attainment: float, remarks: list[str]) -> Term | None:
    """Between the last rate at which enough requests are good and the next, from which they are not."""

    def made(holds_at: float, fails_from: float) -> Term:
        return cliff_rate(holds_at, fails_from, attainment)

    return border(points, lambda one: one.good_share >= attainment, made, f"{attainment:.0%} of requests meet their targets",
                  remarks)


def border(points: Sequence[Point], holds: Callable[[Point], bool], made: Callable[[float, float], Term], what: str,
           remarks: list[str]) -> Term | None:
    """The bracket after the last point that holds; None where all or none do."""
    last = max((index for index, one in enumerate(points) if holds(one)), default=None)
    if last is None:
        remarks.append(f"at no rate of the sweep, from {points[0].rate_per_s:g}/s on: {what}")
        return None
    if last == len(points) - 1:
        remarks.append(f"up to the highest rate, {points[-1].rate_per_s:g}/s: {what}")
        return None
    found = made(points[last].rate_per_s, points[last + 1].rate_per_s)
    early = [one.rate_per_s for one in points[:last] if not holds(one)]
    if not early:
        return found
    note = "not at " + ", ".join(f"{rate:g}/s" for rate in early) + ", which settles above: by chance"
    return replace(found, note=note)
