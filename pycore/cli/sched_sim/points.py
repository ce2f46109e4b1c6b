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
from pycore.simulation.latencies import SECOND
from pycore.simulation.words import KEYS
from pycore.simulation.workload import Workload, parse
from pycore.systems.sched_sim import PRESET_NAMES
from pycore.units import count

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Rates of a sweep, as multiples of the workload's own."""
CHUNKS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
MOST_POINTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One point: `at` is what is swept (requests/s, or tokens), `rate_per_s` what arrives."""

    at: float
    rate_per_s: float
    asked: Asked


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
    try:
        with asking.own_names():
            *_, answer = asking.steps(asking.alone(place.asked))
    except StudioError as error:
        return Found(at=place.at, figures={}, checked=False, fault=str(error))
    run = answer.runs[0]
    return Found(at=place.at, figures=figures(run), checked=all(check.holds for check in run.checks),
                 point=point(place.rate_per_s, run.metrics))


def places(asked: Asked, over: str, values: str | None) -> tuple[Place, ...]:
    """The points of a sweep. Raises InputError."""
    if over == "chunk":
        if asked.query.scheduler not in ("chunked", "disaggregated"):
            raise InputError("scheduler", asked.query.scheduler, "accepted with --over chunk: chunked, disaggregated (other "
                             "policies have no chunk budget)")
        chosen = sorted({int(size) for size in listed(values, whole=True)}) if values else list(CHUNKS)
        rate = own_rate(asked) or 0.0
        return tuple(Place(at=size, rate_per_s=rate, asked=replace(
            asked, query=replace(asked.query, chunk_budget=size))) for size in chosen)
    own = own_rate(asked)
    if own is None:
        workload(asked).at_rate(1.0)  # says which workloads have a rate
        raise InputError("workload", asked.query.workload, "a sweep of rates needs two requests that arrive apart")
    rates = sorted(set(listed(values, whole=False))) if values else [float(f"{own * factor:.6g}") for factor in FACTORS]
    return tuple(Place(at=rate, rate_per_s=rate, asked=at_rate(asked, rate, own)) for rate in rates)


def workload(asked: Asked) -> Workload:
    """The question's workload."""
    return parse(PRESET_NAMES.get(asked.query.workload, asked.query.workload))


def own_rate(asked: Asked) -> float | None:
    """Requests a second as asked: of the process, or the mean of what is replayed; None where there is none."""
    replayed = asked.trace is not None or workload(asked).arrivals == "replay"
    if not replayed:
        return workload(asked).rate if workload(asked).uses("rate") else None
    arrivals = [request.arrival_ns for request in asking.requests(asked).requests]
    lasted = (max(arrivals) - min(arrivals)) / SECOND if arrivals else 0.0
    return len(arrivals) / lasted if lasted else None


def at_rate(asked: Asked, rate: float, own: float) -> Asked:
    """The same question at another rate; a trace is replayed that much faster. Raises InputError."""
    if asked.trace is not None:
        return replace(asked, speed=asked.speed * rate / own)
    known = workload(asked)
    changed = known.at_rate(known.speed * rate / own if known.arrivals == "replay" else rate)
    return replace(asked, query=replace(asked.query, workload=unseeded(changed)))


def unseeded(changed: Workload) -> str:
    """Its line without the seed, which the question gives."""
    return " ".join(word for word in changed.text.split() if not word.startswith("seed="))


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
