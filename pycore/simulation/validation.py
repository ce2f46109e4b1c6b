"""A real run beside its simulation: four figures and their errors, each request, and the state second by second."""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace

from pycore.ledger import Term, term
from pycore.simulation.costs.work import NANOSECONDS
from pycore.simulation.golden import GoldenRun, Reported, Second
from pycore.simulation.records import RequestRecord, Result

TARGET_PERCENT = 5.0
TTFT_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a run: what the engine did, what the simulator says, the error in percent."""

    reported: Term
    simulated: Term
    error: Term

    @property
    def name(self) -> str:
        return self.reported.name

    @property
    def passes(self) -> bool:
        return abs(self.error.value) <= TARGET_PERCENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """A real run beside its simulation. `end_to_end`: per request, (id, reported s, simulated s)."""

    run: GoldenRun
    result: Result
    figures: tuple[Figure, ...]
    end_to_end: tuple[tuple[str, float, float], ...]

    @property
    def passes(self) -> bool:
        return all(figure.passes for figure in self.figures)



@term("Makespan", "s")
def makespan_seconds(last_token_ns):
    "last_token_ns / 10⁹"
    return last_token_ns / NANOSECONDS


@term("Mean TTFT", "s", source="first token − noticed by the engine, as the run's own column counts it")
def mean_ttft(total_ns, requests):
    "total_ns / requests / 10⁹"
    return total_ns / requests / NANOSECONDS


@term("Mean TPOT", "s", source="(last token − first token) / (tokens − 1) of each request")
def mean_tpot(total_ns, requests):
    "total_ns / requests / 10⁹"
    return total_ns / requests / NANOSECONDS


@term("p90 TTFT", "s", source="linear between order statistics (Hyndman and Fan 1996, type 7)")
def percentile_ttft(lower_ns, upper_ns, weight):
    "(lower_ns + weight × (upper_ns − lower_ns)) / 10⁹"
    return (lower_ns + weight * (upper_ns - lower_ns)) / NANOSECONDS


@term("Error", "%")
def error_percent(simulated, reported):
    "100 × (simulated / reported − 1)"
    return 100.0 * (simulated / reported - 1.0)


def whole_figures(requests: tuple[Reported, ...] | tuple[RequestRecord, ...]) -> tuple[Term, ...]:
    """Makespan, mean and p90 time to first token, mean time per token. Raises ValueError where one is not finished."""
    if any(one.finished_ns is None for one in requests):
        raise ValueError("a request of the run did not finish")
    waits = sorted(one.first_token_ns - one.queued_ns for one in requests)
    place = TTFT_SHARE * (len(waits) - 1)
    lower = int(place)
    paces = [(one.finished_ns - one.first_token_ns) / max(1, one.output_tokens - 1) for one in requests]
    return (makespan_seconds(last_token_ns=max(one.finished_ns for one in requests)),
            mean_ttft(total_ns=sum(waits), requests=len(waits)),
            percentile_ttft(lower_ns=waits[lower], upper_ns=waits[min(lower + 1, len(waits) - 1)], weight=place - lower),
            mean_tpot(total_ns=round(math.fsum(paces)), requests=len(paces)))


def validate(run: GoldenRun, result: Result) -> Validation:
    """The real run beside a simulated one of the same requests."""
    figures = []
    for real, ours in zip(whole_figures(run.requests), whole_figures(result.requests), strict=True):
        real = replace(real, basis="reported", source=run.source)
        figures.append(Figure(reported=real, simulated=ours,
                              error=error_percent(simulated=ours, reported=real).renamed(f"{real.name} error")))
    simulated = {one.id: one for one in result.requests}
    return Validation(run=run, result=result, figures=tuple(figures), end_to_end=tuple(
        (one.id, (one.finished_ns - one.arrival_ns) / NANOSECONDS, simulated[one.id].e2e_ns / NANOSECONDS)
        for one in run.requests))


def state_at(result: Result, second: float) -> Second:
    """What the simulated engine would have logged: running, waiting, share of the pool in use."""
    server, at = result.servers[0], second * NANOSECONDS
    index = bisect_right(server.steps, at, key=lambda step: step.start_ns) - 1
    if index < 0 or server.steps[index].end_ns < at:
        return Second(second=second, running=0, waiting=0, kv_percent=0.0)
    step = server.steps[index]
    return Second(second=second, running=step.running, waiting=step.waiting,
                  kv_percent=100.0 * step.blocks_used / server.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Mean absolute difference over the seconds of a run, and the largest reported value beside each."""

    running: float
    waiting: float
    kv_points: float | None
    most_running: int
    most_waiting: int


def state_differences(run: GoldenRun, result: Result) -> Differences:
    """Second by second: sequences running, requests waiting, percent of the pool in use."""
    pairs = [(second, state_at(result, second.second)) for second in run.seconds]

    def mean(name: str) -> float:
        return math.fsum(abs(getattr(ours, name) - getattr(real, name)) for real, ours in pairs) / len(pairs)

    return Differences(
        running=mean("running"), waiting=mean("waiting"),
        kv_points=None if run.seconds[0].kv_percent is None else mean("kv_percent"),
        most_running=max(second.running for second in run.seconds),
        most_waiting=max(second.waiting for second in run.seconds))
