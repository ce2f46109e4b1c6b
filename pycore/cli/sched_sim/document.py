"""The answer as JSON. The keys of `figures` are kept stable for scripts; others may be added, none renamed."""

from collections.abc import Mapping
from typing import Any

from pycore.cli.sched_sim import again
from pycore.cli.sched_sim.asking import Asked
from pycore.knobs import knobs
from pycore.ledger import Term
from pycore.simulation.figures import Distribution
from pycore.stats.estimates import TooFew
from pycore.systems.sched_sim import Answer, Draw, Query, Run, SweepPoint

MILLISECONDS = 1000.0
KEYS = {"ttft_ms": "ttft", "tpot_ms": "tpot", "itl_ms": "itl", "e2e_ms": "e2e"}


def figures(run: Run | SweepPoint | Draw) -> dict[str, Any]:
    """One run, or what a sweep or a draw kept of it, by the stable keys: counts, times in ms, rates a second."""
    found = run.metrics
    return {
        "requests": found.sent.value,
        "completed": found.completed.value,
        "dropped": found.dropped.value,
        "makespan_s": found.makespan.value,
        **{key: distribution(found.latencies[name]) for key, name in KEYS.items()},
        "throughput_tokens_per_s": found.output_tokens_per_s.value,
        "goodput_requests_per_s": found.goodput.per_s.value,
        "preemptions": found.preemptions.value,
        "prefix_hit_ratio": found.hit_ratio.value,
        "steps": found.batches.steps.value,
    }


def distribution(found: Distribution) -> dict[str, Any]:
    """Mean and percentiles in ms; null with a note beside it where there are too few samples. `lost`: requests without."""
    made: dict[str, Any] = {}
    for key, figure in (("mean", found.mean), *((f"p{percent}", found.percentiles[percent]) for percent in (50, 90, 99))):
        made[key] = None if isinstance(figure, TooFew) else figure.value * MILLISECONDS
        if isinstance(figure, TooFew):
            made[f"{key}_note"] = figure.text
    return made | {"n": found.n, "lost": found.lost}


def more(run: Run) -> dict[str, Any]:
    """What is said of a run beside its stable keys."""
    found = run.metrics
    return {
        "scheduler": run.policy,
        "label": run.label,
        "unfinished": found.unfinished.value,
        "lost_to": found.lost_to,
        "goodput_share": found.goodput.share.value,
        "queueing_ms": distribution(found.latencies["queueing"]),
        "requests_per_s": found.requests_per_s.value,
        "recomputed_tokens": found.recomputed_tokens.value,
        "kv_pool_mean": found.pool.mean.value,
        "kv_pool_peak": found.pool.peak.value,
        "energy_at_most_j": value(found.energy),
        "energy_at_most_j_per_token": value(found.energy_per_token),
        "intervals": {key: intervals(found.latencies[name]) for key, name in KEYS.items()},
        "checks": [{"name": check.name, "holds": check.holds, "says": check.says} for check in run.checks],
    }


def value(term: Term | None) -> float | None:
    """A term's value."""
    return None if term is None else term.value


def intervals(found: Distribution) -> dict[str, Any]:
    """The 95 % interval in ms of each figure that has one, and why there is none."""
    made: dict[str, Any] = {"refused": found.refused} if found.refused else {}
    for key, figure in (("mean", found.mean), *((f"p{percent:g}", figure) for percent, figure in found.percentiles.items())):
        if not isinstance(figure, TooFew) and figure.low is not None:
            made[key] = [figure.low * MILLISECONDS, figure.high * MILLISECONDS]
    return made


def whole(run: Run) -> dict[str, Any]:
    """One run, stable keys first."""
    return figures(run) | more(run)


def setting(asked: Asked, answer: Answer, command: str, own: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What was simulated, and how to ask for it again (see `again.command`)."""
    scene = answer.scene
    return {
        "model": scene.deployment.model.name,
        "accelerator": scene.deployment.accelerator.name,
        "step_times": scene.cost_name,
        "kv_blocks": scene.blocks.value,
        "workload": answer.workload_text,
        "workload_words": answer.workload_words,
        "notes": list(answer.notes),
        "query": question(asked.query),
        **again.address(asked),
        "command": again.command(asked, command, own),
    }


def question(query: Query) -> dict[str, Any]:
    """Every field with its value as JSON; `parse` takes it back."""
    return {knob.name: getattr(query, knob.name) for knob in knobs(query)}
