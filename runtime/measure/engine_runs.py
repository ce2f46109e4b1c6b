"""Write `data/llm-serving-traces/engine_runs.csv`: real runs of mini-infer, and what sched-sim says of them beforehand.

    python -m runtime.measure.engine_runs [--model smollm2-135m] [--anyway]
    python -m runtime.measure.engine_runs --check

One trace is served to learn what a step takes on this machine (six coefficients, by least squares); others, of other
arrivals, lengths, prefixes and policies, are predicted with them and then served. Refuses a busy machine: there a step takes
what others leave. `--check` recalculates what follows from the measured columns and holds the rest to its form: the
measurements themselves cannot be made twice.
"""

import argparse
import csv
import os
import platform
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING

from pycore.serving.limits import Limits
from pycore.simulation import arrivals as processes
from pycore.simulation.costs.custom import LinearCost
from pycore.simulation.records import Result
from pycore.stats.percentiles import percentile
from runtime.measure.tables import ROOT, csv_text, settle
from runtime.processor import processor

if TYPE_CHECKING:
    from runtime.mini_infer.engine import Engine
    from runtime.mini_infer.model import Model
    from runtime.mini_infer.replay import Arrival

FILE = "data/llm-serving-traces/engine_runs.csv"
COLUMNS = ("run", "trace", "policy", "model", "device", "figure", "unit", "measured", "predicted", "error_percent",
           "target_percent", "requests", "steps", "decisions", "load_average", "threads", "versions", "date", "command")
TARGET_PERCENT, MOST_LOAD = 5, 0.5
Figures = dict[str, tuple[str, float, int | None]]
"""Figure to (unit, value, target in percent)."""
BLOCKS, BLOCK_SIZE, BATCHED, SEQUENCES = 256, 16, 256, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Requests to be: when they come, how long they are, how many tokens of a prompt all share."""

    name: str
    words: str
    arrivals: Callable[[random.Random], Iterator[int]]
    policy: str = "chunked"
    requests: int = 30
    prompt: tuple[int, int] = (24, 160)
    output: tuple[int, int] = (12, 48)
    shared: int = 0
    seed: int = 1


LEARN = Trace(name="learn", words="poisson rate=0.6 prompt=16-320 output=12-48", requests=40, prompt=(16, 320),
              arrivals=lambda rng: processes.poisson(0.6, rng))
"""Spans the lengths of the others: a fit is asked for nothing that it has not seen."""
WARM = Trace(name="warm", words="", requests=4, arrivals=lambda rng: processes.deterministic(4.0), seed=9)
TRACES = (
    Trace(name="other arrivals", words="poisson rate=0.7 prompt=24-160 output=12-48", seed=2,
          arrivals=lambda rng: processes.poisson(0.7, rng)),
    Trace(name="bursts", words="gamma rate=0.6 cv=3 prompt=24-160 output=12-48", seed=3,
          arrivals=lambda rng: processes.gamma(0.6, 3.0, rng)),
    Trace(name="shared prefixes", words="poisson rate=0.9 prompt=112-240, 96 of them shared, output=12-32", seed=4,
          shared=96, prompt=(112, 240), output=(12, 32), arrivals=lambda rng: processes.poisson(0.9, rng)),
    Trace(name="first come, first served", words="poisson rate=0.6 prompt=64-320 output=8-32", seed=5, policy="fcfs",
          prompt=(64, 320), output=(8, 32), arrivals=lambda rng: processes.poisson(0.6, rng)),
)


def drawn(trace: Trace, vocabulary: int) -> "list[Arrival]":
    """Its requests, the same for the same vocabulary."""
    from runtime.mini_infer.generation import Generation
    from runtime.mini_infer.replay import Arrival

    rng = random.Random(trace.seed)
    times = list(islice(trace.arrivals(rng), trace.requests))
    beginning = tuple(rng.randrange(vocabulary) for _ in range(trace.shared))
    found = []
    for number, at in enumerate(times):
        length, tokens = rng.randint(*trace.prompt), rng.randint(*trace.output)
        prompt = beginning + tuple(rng.randrange(vocabulary) for _ in range(length - trace.shared))
        found.append(Arrival(at_ns=at - times[0], generation=Generation(id=f"r{number}", prompt=prompt, max_tokens=tokens,
                                                                        ignore_end=True)))
    return found


def engine_for(trace: Trace, model: "Model") -> "Engine":
    """A fresh engine: every trace has the same pool and limits."""
    from pycore.systems.mini_infer_setup import policy
    from runtime.mini_infer.engine import Engine

    limits = Limits(max_sequences=SEQUENCES, max_batched_tokens=BATCHED, max_model_length=512)
    return Engine.of(model, blocks=BLOCKS, block_size=BLOCK_SIZE, policy=policy(trace.policy), limits=limits)


def figures(ttft: Sequence[int], tpot: Sequence[float], makespan: int, hits: int) -> Figures:
    """Those of one run: nanoseconds of each request, of the run, and prompt tokens found in the cache."""
    return {"Makespan": ("s", makespan / 1e9, TARGET_PERCENT),
            "Mean TTFT": ("s", statistics.fmean(ttft) / 1e9, TARGET_PERCENT),
            "Mean TPOT": ("ms", statistics.fmean(tpot) / 1e6, TARGET_PERCENT),
            "p90 TTFT": ("s", percentile(sorted(ttft), 90) / 1e9, None),
            "Cached prompt tokens": ("tokens", hits, None)}


def of_result(result: Result) -> Figures:
    """Of the simulator's run."""
    return figures([one.ttft_ns for one in result.requests], [one.tpot_ns for one in result.requests if one.tpot_ns],
                   result.makespan_ns, sum(one.cached_tokens for one in result.requests))


def measured(model_name: str, say: Callable[[str], None]) -> tuple[list[dict[str, object]], LinearCost]:
    """All rows, and the coefficients. Raises StudioError."""
    from pycore.systems.mini_infer_setup import Choices
    from runtime.mini_infer.replay import Wall, play
    from runtime.mini_infer.setup import Setup, prepare
    from runtime.mini_infer.simulated import fitted
    from runtime.mini_infer.source import open_source

    chosen = Setup.of(Choices(model=model_name, device="cpu"))
    source = open_source(chosen.model, dtype=chosen.dtype, device=chosen.device, say=say)
    model, facts = source.model, machine()
    prepare(model, chosen.linear, say)
    for trace in (WARM, LEARN):
        learnt = play(engine_for(trace, model), drawn(trace, model.configuration.vocabulary), Wall())
    cost = fitted(learnt.steps, f"{len(learnt.steps)} steps of {source.name} on {facts['device']}")
    rows = []
    for trace in TRACES:
        rows += served(trace, model, cost, {"model": source.name, **facts})
        say(f"{trace.name}: " + ", ".join(f"{row['figure']} {row['error_percent']} %" for row in rows[-5:]))
    return rows, cost


def served(trace: Trace, model: "Model", cost: LinearCost, facts: dict[str, object]) -> list[dict[str, object]]:
    """A trace predicted, then served: a row for each figure."""
    from runtime.mini_infer.replay import Wall, play
    from runtime.mini_infer.simulated import differences, requests, simulate, twin

    asked = drawn(trace, model.configuration.vocabulary)
    predicted = of_result(simulate(twin(engine_for(trace, model), cost), requests(asked))[0])
    engine, load = engine_for(trace, model), os.getloadavg()[0]
    played = play(engine, asked, Wall())
    wrong = differences(engine, asked, played)
    mine = figures([one.ttft_ns for one in played.requests], [one.tpot_ns for one in played.requests if one.tpot_ns],
                   played.makespan_ns, sum(one.cached_tokens for one in played.requests))
    return [{
        "run": trace.name, "trace": trace.words + f" requests={trace.requests} seed={trace.seed}", "policy": trace.policy,
        "figure": figure, "unit": unit, "measured": f"{value:.5g}", "predicted": f"{predicted[figure][1]:.5g}",
        "error_percent": error(f"{value:.5g}", f"{predicted[figure][1]:.5g}"), "target_percent": target,
        "requests": len(asked), "steps": len(played.steps), "decisions": wrong[0] if wrong else "the same",
        "load_average": f"{load:.2f}", **facts} for figure, (unit, value, target) in mine.items()]


def error(value: str, said: str) -> str:
    """(predicted - measured) / measured, percent, as it is written; of nothing measured and nothing predicted 0."""
    if float(value) == 0:
        return "0" if float(said) == 0 else ""
    return f"{100 * (float(said) / float(value) - 1):.2f}"


def machine() -> dict[str, object]:
    """What a row says of where it was measured."""
    import torch

    return {"device": f"{processor()}, {os.cpu_count()} cores", "threads": torch.get_num_threads(),
            "versions": f"Python {platform.python_version()}, torch {torch.__version__}", "date": date.today().isoformat(),
            "command": "python -m runtime.measure.engine_runs"}


def check() -> int:
    """Exit status: the committed rows have the columns, figures and runs they must have, and their errors follow."""
    with open(ROOT / FILE, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    faults = [] if rows and tuple(rows[0]) == COLUMNS else ["the columns are not those that the generator writes"]
    if [row["run"] for row in rows] != [trace.name for trace in TRACES for _ in range(5)]:
        faults.append("the runs are not those of the generator")
    for number, row in enumerate(rows, 2):
        if row["error_percent"] != error(row["measured"], row["predicted"]):
            faults.append(f"line {number}: the error does not follow from measured and predicted")
        faults += [f"line {number}: {name} is empty" for name in ("device", "load_average", "command", "date", "versions")
                   if not row[name]]
        if row["decisions"] != "the same":
            faults.append(f"line {number}: the simulator decided otherwise")
    for fault in faults:
        print(f"{FILE}: {fault}", file=sys.stderr)
    print(f"{len(rows)} rows checked, {len(faults)} faults")
    return 1 if faults else 0


def main() -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(prog="python -m runtime.measure.engine_runs", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine too; each row says how busy")
    parser.add_argument("--check", action="store_true", help="hold the committed rows to what can be checked")
    parser.add_argument("--dry-run", action="store_true", help="measure, print the rows, write nothing")
    options = parser.parse_args()
    if options.check:
        return check()
    if (load := os.getloadavg()[0]) > MOST_LOAD and not options.anyway:
        parser.error(f"this machine is busy (load average {load:.2f}, at most {MOST_LOAD}); --anyway measures all the same")
    rows, cost = measured(options.model, lambda text: print(text, file=sys.stderr))
    print(cost, file=sys.stderr)
    text = csv_text(COLUMNS, rows)
    if options.dry_run:
        print(text)
        return 0
    return settle({FILE: text}, check=False)


if __name__ == "__main__":
    sys.exit(main())
