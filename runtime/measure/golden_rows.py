"""Runs of a real engine beside their simulation, figure by figure: data/llm-serving-traces/validation.csv."""

import math
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

from pycore.simulation.golden import GoldenRun, Reported, golden_runs, golden_setup, golden_traffic, predicted_pool
from pycore.simulation.records import RequestRecord
from pycore.simulation.run import run as simulate
from pycore.simulation.validation import TARGET_PERCENT, state_at, validate
from runtime.measure.scheduler_rows import digits

COLUMNS = ("run", "accelerator", "model", "engine", "figure", "unit", "reported", "predicted", "error_percent",
           "target_percent", "reported_basis", "predicted_basis", "source")
Request = Reported | RequestRecord


def percentile(values: Sequence[float], share: float) -> float:
    """Linear between order statistics (Hyndman and Fan 1996, type 7)."""
    ordered, place = sorted(values), share * (len(values) - 1)
    lower = int(place)
    return ordered[lower] + (place - lower) * (ordered[min(lower + 1, len(ordered) - 1)] - ordered[lower])


def wait_ms(one: Request) -> float:
    """First token less when the engine noticed the request: how the run's own column counts."""
    return (one.first_token_ns - one.queued_ns) / 1e6


def pace_ms(one: Request) -> float:
    """Time of a token after the first."""
    return (one.finished_ns - one.first_token_ns) / max(1, one.output_tokens - 1) / 1e6


def whole_ms(one: Request) -> float:
    """Last token less arrival."""
    return (one.finished_ns - one.arrival_ns) / 1e6


MORE: tuple[tuple[str, Callable[[Request], float], float | None], ...] = (
    ("TTFT p50", wait_ms, 0.5), ("TTFT p99", wait_ms, 0.99), ("TPOT p50", pace_ms, 0.5), ("TPOT p90", pace_ms, 0.9),
    ("End to end mean", whole_ms, None), ("End to end p50", whole_ms, 0.5), ("End to end p90", whole_ms, 0.9))
"""Figures without a target: what the four with one do not show."""


def validation_rows() -> Iterator[dict[str, object]]:
    """Every figure of both runs, those with a target first."""
    for run in golden_runs():
        result = simulate(golden_setup(run), golden_traffic(run))
        for figure in validate(run, result).figures:
            yield row(run, figure.name, "s", figure.reported.value, figure.simulated.value, target=round(TARGET_PERCENT))
        for name, read, share in MORE:
            real, ours = ([read(one) for one in requests] for requests in (run.requests, result.requests))
            if share is None:
                yield row(run, name, "ms", math.fsum(real) / len(real), math.fsum(ours) / len(ours))
            else:
                yield row(run, name, "ms", percentile(real, share), percentile(ours, share))
        states = [(second, state_at(result, second.second)) for second in run.seconds]
        for name, state in (("running", attrgetter("running")), ("waiting", attrgetter("waiting"))):
            real, ours = (math.fsum(state(pair[side]) for pair in states) / len(states) for side in (0, 1))
            yield row(run, f"Requests {name}, mean over the seconds", "requests", real, ours)
        if run.seconds[0].kv_percent is not None:  # a run whose log tells of its pool
            yield row(run, "KV blocks of the pool", "blocks", run.kv_blocks, predicted_pool(run).value, basis="derived")


def row(run: GoldenRun, figure: str, unit: str, real: float, ours: float, *, basis: str = "simulated",
        target: int | None = None) -> dict[str, object]:
    """One figure."""
    return {"run": run.id, "accelerator": run.accelerator, "model": run.model, "engine": run.engine, "figure": figure,
            "unit": unit, "reported": digits(real), "predicted": digits(ours),
            "error_percent": f"{100 * (ours / real - 1):.2f}", "target_percent": target,
            "reported_basis": "measured by others", "predicted_basis": basis, "source": run.source}
