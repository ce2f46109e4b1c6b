"""The points of a sweep: what is asked at each, and how one is computed in a process of its own, here or on a cluster."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pycore.cli.sched_sim import asking
from pycore.cli.sched_sim.asking import Asked
from pycore.cli.sched_sim.document import figures
from pycore.errors import InputError, StudioError
from pycore.simulation.knee import Point, point
from pycore.simulation.words import KEYS
from pycore.simulation.workload import Workload, parse
from pycore.systems.sched_sim import CHUNKS, PRESET_NAMES, RATE_FACTORS, offered
from pycore.units import count

MOST_POINTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One point: `at` is what is swept (requests/s, or tokens), `rate_per_s` what arrives. `fault`: why there is no such
    question."""

    at: float
    rate_per_s: float
    asked: Asked
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a point gave: the stable figures and its place on the curve of rates; or why it could not be run.

    Only plain data: it comes back from another process."""

    at: float
    figures: dict[str, Any]
    checked: bool
    point: Point | None = None
    fault: str = ""


def compute(place: Place) -> Found:
    """Run one point. Faults of the question come back as text: they belong to this point, not to the sweep."""
    if place.fault:
        return Found(at=place.at, figures={}, checked=False, fault=place.fault)
    try:
        with asking.own_names():
            *_, answer = asking.steps(asking.alone(place.asked))
    except StudioError as error:
        return Found(at=place.at, figures={}, checked=False, fault=str(error))
    run = answer.runs[0]
    return Found(at=place.at, figures=figures(run), checked=all(check.holds for check in run.checks),
                 point=point(place.rate_per_s, run.metrics))


def places(asked: Asked, over: str, values: str | None) -> tuple[Place, ...]:
    """The points of a sweep: those of `values`, else the page's. Raises InputError."""
    if over == "chunk":
        if asked.query.scheduler not in ("chunked", "disaggregated"):
            raise InputError("scheduler", asked.query.scheduler, "accepted with --over chunk: chunked, disaggregated (other "
                             "policies have no chunk budget)")
        chosen = CHUNKS if values is None else sorted({int(size) for size in listed(values, whole=True)})
        rate = own_rate(asked) or 0.0
        return tuple(Place(at=size, rate_per_s=rate, asked=replace(
            asked, query=replace(asked.query, chunk_budget=size))) for size in chosen)
    own = own_rate(asked)
    if own is None:
        workload(asked).at_rate(1.0)  # says which workloads have a rate
        raise InputError("workload", asked.query.workload, "a sweep of rates needs two requests that arrive apart")
    if values is None:
        return tuple(usual(asked, own * factor, factor) for factor in RATE_FACTORS)
    return tuple(named(asked, rate, rate / own) for rate in sorted(set(listed(values, whole=False))))


def usual(asked: Asked, rate: float, factor: float) -> Place:
    """One of the points that nobody named; where the workload does not go so fast or slow, that is this point's fault."""
    try:
        return Place(at=rate, rate_per_s=rate, asked=at_rate(asked, rate, factor))
    except InputError as error:
        return Place(at=rate, rate_per_s=rate, asked=asked, fault=str(error))


def named(asked: Asked, rate: float, factor: float) -> Place:
    """A point of --at. Raises InputError."""
    try:
        return Place(at=rate, rate_per_s=rate, asked=at_rate(asked, rate, factor))
    except InputError as error:
        raise InputError("at", f"{rate:g}", error.accepted) from None


def workload(asked: Asked) -> Workload:
    """The question's workload."""
    return parse(PRESET_NAMES.get(asked.query.workload, asked.query.workload), seed=asked.query.seed)


def own_rate(asked: Asked) -> float | None:
    """Requests a second as asked, None where there is none: the rule of the page."""
    return offered(asking.requests(asked))


def at_rate(asked: Asked, rate: float, factor: float) -> Asked:
    """The same question at another rate, `factor` times its own; a trace is replayed that much faster.

    The line names its seed: requests differ in when they come and in nothing else. Raises InputError.
    """
    if asked.trace is not None:
        return replace(asked, speed=asked.speed * factor)
    known = workload(asked)
    changed = known.at_rate(known.speed * factor if known.arrivals == "replay" else rate)
    return replace(asked, query=replace(asked.query, workload=changed.text))


def listed(text: str, *, whole: bool) -> Sequence[float]:
    """Numbers separated by commas. Raises InputError."""
    accepted = "accepted: " + ("whole numbers of tokens from 1 to 1,048,576" if whole else KEYS["rate"].accepted)
    found = []
    for word in text.split(","):
        try:
            number = count(word.strip())
        except (ValueError, OverflowError):
            number = math.nan
        if not 0 < number < math.inf or (whole and (number != int(number) or number > 1 << 20)):
            raise InputError("at", word.strip(), f"{accepted}, separated by commas")
        found.append(number)
    if len(found) > MOST_POINTS:
        raise InputError("at", f"{len(found):,} points", f"accepted: at most {MOST_POINTS:,}")
    return found
