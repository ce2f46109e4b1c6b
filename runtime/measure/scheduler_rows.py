"""Schedulers beside one another on the same requests: simulated rows of data/llm-serving-traces/schedulers.csv."""

from collections.abc import Iterator
from dataclasses import replace

from pycore.knobs import to_command
from pycore.ledger import Term
from pycore.simulation.figures import Distribution
from pycore.stats.estimates import TooFew
from pycore.systems.sched_sim import Query, Run, answer

LATENCIES = ("ttft", "tpot", "itl", "e2e")
FIGURES = ("mean", "p50", "p90", "p99")
COLUMNS = ("workload", "scheduler", "model", "hardware", "engines", "step_times", "kv_blocks", "requests", "completed",
           "dropped", "makespan_s", *(f"{name}_ms_{figure}" for name in LATENCIES for figure in FIGURES),
           "longest_silence_ms",
           "output_tokens_per_s", "goodput_share", "goodput_requests_per_s", "ttft_target_ms", "tpot_target_ms",
           "prefix_hit_ratio", "preemptions", "steps", "basis", "command")
POLICIES = ("chunked", "fcfs", "decode-first", "sjf", "cache-aware", "slo-aware", "priority", "disaggregated")
MILLI = 1_000.0

# What vLLM takes at most in one step, and what the kernels of the RTX 4090 were measured up to.
SMALL = Query(hardware="rtx 4090", model="llama-3.1-8b", max_batched_tokens=2048, seed=1)
LARGE = Query(hardware="h100 sxm", model="llama-3.1-8b", max_batched_tokens=8192, chunk_budget=2048, seed=1)
SCENES = (
    replace(SMALL, workload="long-prompt-stall"),
    replace(SMALL, workload="chat rate=3 urgent=0.2"),
    replace(SMALL, workload="replay trace=azure-code"),
    replace(LARGE, workload="replay trace=mooncake-synthetic speed=0.5"),
)
"""Prompts of the Mooncake traces are longer than the pool of the small card holds."""


def scheduler_rows() -> Iterator[dict[str, object]]:
    """One row a scene and policy. Raises RuntimeError where a run breaks one of its own laws."""
    for scene in SCENES:
        found = answer(replace(scene, scheduler=POLICIES[0], against=",".join(POLICIES[1:])))
        for run in found.runs:
            broken = [check.says for check in run.checks if not check.holds]
            if broken:
                raise RuntimeError(f"{scene.workload}, {run.policy}: {broken}")
            yield {"workload": found.workload_text, "step_times": found.scene.cost_name.partition(":")[0],
                   "kv_blocks": int(found.scene.blocks.value), "hardware": found.scene.deployment.accelerator.id,
                   "model": found.scene.deployment.model.id, "ttft_target_ms": digits(scene.slo_ttft_ms),
                   "tpot_target_ms": digits(scene.slo_tpot_ms), "basis": "simulated",
                   "command": to_command(replace(scene, scheduler=run.policy, against=""), "sched-sim run")} | row_of(run)


def row_of(run: Run) -> dict[str, object]:
    """The figures of one run; what too few samples give stays empty."""
    metrics = run.metrics
    figures = {f"{name}_ms_{figure}": text for name in LATENCIES
               for figure, text in zip(FIGURES, latency(metrics.latencies[name]), strict=True)}
    longest = max((later - earlier for earlier, later in silences(run)), default=0)
    return figures | {
        "scheduler": run.policy, "engines": len(run.result.servers),
        "requests": metrics.sent.value, "completed": metrics.completed.value,
        "dropped": metrics.dropped.value, "makespan_s": digits(metrics.makespan.value),
        "longest_silence_ms": digits(longest / 1e6), "output_tokens_per_s": digits(metrics.output_tokens_per_s.value),
        "goodput_share": digits(metrics.goodput.share.value),
        "goodput_requests_per_s": digits(metrics.goodput.per_s.value),
        "prefix_hit_ratio": digits(metrics.hit_ratio.value), "preemptions": metrics.preemptions.value,
        "steps": sum(len(server.steps) for server in run.result.servers)}


def silences(run: Run) -> Iterator[tuple[int, int]]:
    """(from, to) in ns between one token of a request and its next, where work of others came in between."""
    for request in run.result.requests:
        if request.first_token_ns is not None:
            for gap in request.gaps:
                if gap.start_ns >= request.first_token_ns:
                    yield gap.start_ns, gap.end_ns


def latency(one: Distribution) -> list[str]:
    """Mean, p50, p90, p99 in milliseconds."""
    return [milliseconds(one.mean), *(milliseconds(one.percentiles[percent]) for percent in (50, 90, 99))]


def milliseconds(value: Term | TooFew) -> str:
    return "" if isinstance(value, TooFew) else digits(value.value * MILLI)


def digits(value: float) -> str:
    """Five significant digits: what CPython of every version and Pyodide agree on."""
    return f"{float(value):.5g}" if abs(value) < 99_999.5 else f"{float(value):.0f}"
