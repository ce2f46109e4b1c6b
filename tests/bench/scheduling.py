"""sched-sim beside two other simulators on the same requests, a whole sweep, and an hour of Azure's log."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pycore.cli.sched_sim.asking import Asked
from pycore.cli.sched_sim.points import places
from pycore.cli.sched_sim.workers import cores, here
from pycore.systems.sched_sim import Query, answer
from tests.bench.peers import CACHE

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FACTS = Path(os.environ.get("FACTS") or ROOT.parent / "shared" / "facts")
AZURE = "traces/azure-AzureLLMInferenceTrace_conv.csv.gz"
OURS = ("fcfs", "sjf", "chunked", "slo-aware", "disaggregated")
THEIRS = ("fcfs", "sjf", "chunked", "slo", "disaggregated")
MACHINE = Query(model="llama-3.1-8b", hardware="a100 sxm 80gb", against="")
REPLAYED = Query(model="llama-3.1-8b", hardware="h100 sxm", chunk_budget=2048, max_batched_tokens=2048, against="")
PEER_RATE, PEER_SECONDS, TIMES_PEER = 8.0, 60.0, 10.0
LAB_REQUESTS = 300
CPYTHON_S, PYODIDE_S = 20.0, 60.0

PEER = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from sched_sim.core.event_engine import Simulator
from sched_sim.hardware.presets import get_hardware_profile
from sched_sim.schedulers.factory import create_scheduler
from sched_sim.workloads.generator import generate_workload
card = get_hardware_profile("a100")
base = generate_workload(float(sys.argv[2]), float(sys.argv[3]), "chatbot", "poisson", 42)
start, done = time.process_time(), []
for name in sys.argv[4].split(","):
    simulator = Simulator(card, create_scheduler(name, card, token_budget=512))
    simulator.submit_workload([one.model_copy(deep=True) for one in base])
    simulator.run()
    done.append(len(base))
print(json.dumps({"seconds": time.process_time() - start, "simulated": sum(done),
                  "rows": [[one.arrived_at, one.prompt_tokens, one.output_tokens] for one in base]}))
"""
"""The loop of the peer's own `compare`, without its printing."""


def peer_folder() -> Path | None:
    """PyPI's sched-sim 0.2.1 with what it needs, in a folder of its own; None where pip cannot get it."""
    folder = CACHE / "sched-sim-0.2.1-installed"
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "sched-sim==0.2.1"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
    return folder


def csv_of(rows: Sequence[Sequence[float]]) -> str:
    """Rows (arrival s, prompt, output) as our own layout."""
    return "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{a},{p},{o}\n" for a, p, o in rows)


def beside_peer() -> None:
    """Five policies on the same Poisson arrivals, simulated requests a second of CPU, ours and the peer's."""
    folder = peer_folder()
    if folder is None:
        print("\nPyPI sched-sim 0.2.1: not installable here, so no comparison")
        return
    command = [sys.executable, "-c", PEER, str(folder), str(PEER_RATE), str(PEER_SECONDS), ",".join(THEIRS)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if result.returncode:
        print(f"\nPyPI sched-sim 0.2.1 failed, so no comparison: {result.stderr.strip().splitlines()[-1:]}")
        return
    theirs = json.loads(result.stdout)
    query = replace(MACHINE, trace=csv_of(theirs["rows"]), scheduler=OURS[0], against=",".join(OURS[1:]))
    answer(replace(query, limit=10))
    start = time.process_time()
    found = answer(query)
    seconds = time.process_time() - start
    simulated = sum(len(run.result.requests) for run in found.runs)
    ours, peers = simulated / seconds, theirs["simulated"] / theirs["seconds"]
    print(f"\ncompare of five policies, {len(theirs['rows'])} Poisson requests, A100, 8 B parameters, one core: sched-sim "
          f"{ours:,.0f} requests/s of CPU, PyPI sched-sim 0.2.1 {peers:,.0f}: {ours / peers:.1f} times "
          f"(target: at least {TIMES_PEER:g}; ours includes metrics, intervals and the checks of every run)")


def beside_lab() -> None:
    """300 requests: ours against npm's @doublewordai/inference-lab 0.2.1 in Node (WASM), both with their start."""
    sys.path.insert(0, str(ROOT / "site"))
    from builder import node

    folder = CACHE / "inference-lab-0.2.1"
    if not folder.exists():
        command = [*node.find().npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix",
                   str(folder), "@doublewordai/inference-lab@0.2.1"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            print("npm @doublewordai/inference-lab 0.2.1: not installable here, so no comparison")
            return
    try:
        theirs = json.loads(node.run(HERE / "lab.mjs", str(folder / "node_modules/@doublewordai/inference-lab"),
                                     str(LAB_REQUESTS)))
    except Exception as error:
        print(f"npm @doublewordai/inference-lab 0.2.1 failed, so no comparison: {str(error)[-200:]}")
        return
    query = replace(MACHINE, hardware="h100 sxm", workload=f"poisson rate=8 prompt=lognormal:1024 output=lognormal:256 "
                                                            f"requests={LAB_REQUESTS}")
    start = time.process_time()
    found = answer(query)
    ours = time.process_time() - start
    tokens = sum(request.generated_tokens for request in found.runs[0].result.requests)
    print(f"{LAB_REQUESTS} Poisson requests, H100, 8 B parameters: inference-lab 0.2.1 (Rust in WASM, Node) run "
          f"{theirs['run_ms']:.0f} ms after a start of {theirs['start_ms']:.0f} ms ({theirs['completed']} done, "
          f"{theirs['output_tokens']:,.0f} tokens out); ours in CPython {ours * 1000:.0f} ms ({tokens:,} tokens out): "
          f"{theirs['run_ms'] / ours / 1000:.2f} times its speed (each draws its own lengths of the same distributions)")


def whole_sweep() -> None:
    """Nine rates of the chat workload on every core, beside the same on one."""
    asked = Asked(query=replace(MACHINE, workload="chat"))
    points = places(asked, "rate", None)
    times = []
    for processes in (1, 0):
        start = time.monotonic()
        found = list(here(points, processes))
        times.append(time.monotonic() - start)
        if not all(one.checked for one in found):
            raise SystemExit("a run of the sweep failed or broke its own laws")
    print(f"sweep of {len(points)} rates x 400 requests: {times[1]:.1f} s on {cores()} cores, {times[0] / times[1]:.2f} times "
          "as fast as on one")


def azure_text() -> str | None:
    """The whole conversation log, or None where the folder of facts is not there."""
    path = FACTS / AZURE
    return gzip.decompress(path.read_bytes()).decode() if path.exists() else None


def whole_replay(text: str) -> None:
    """The hour in CPython, and that cost grows with steps: a quarter, a half, the whole."""
    rows, steps, seconds = len(text.splitlines()) - 1, [], []
    for share in (4, 2, 1):
        start = time.process_time()
        found = answer(replace(REPLAYED, trace=text, limit=rows // share))
        seconds.append(time.process_time() - start)
        steps.append(found.runs[0].metrics.batches.steps.value)
    costs = ", ".join(f"{count / steps[0]:.2f}x the steps in {taken / seconds[0]:.2f}x the time"
                      for count, taken in zip(steps, seconds, strict=True))
    print(f"replay of Azure's conversation log, {found.runs[0].metrics.completed.value:,} requests, {steps[-1]:,} steps: "
          f"{seconds[-1]:.1f} s of one core in CPython (target: under {CPYTHON_S:g} s); {costs}")


def in_pyodide(text: str) -> None:
    """The same replay in Node's Pyodide, metrics and checks included."""
    for folder in (ROOT, ROOT / "site"):
        sys.path.insert(0, str(folder))
    from builder import node
    from builder.effects import Record
    from builder.pack import app_zip, on_path
    from builder.pages import studios_in
    from builder.snapshot import runtime_folder
    from builder.vendor import vendored

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runtime = runtime_folder(vendored(Record()), folder / "runtime")
        studios = studios_in(ROOT, ())
        on_path(ROOT, studios)
        (folder / "app.zip").write_bytes(app_zip(ROOT, studios))
        (folder / "trace.csv").write_text(text)
        query = {name: getattr(REPLAYED, name) for name in ("model", "hardware", "chunk_budget", "max_batched_tokens", "against")}
        (folder / "query.json").write_text(json.dumps(query))
        found = json.loads(node.run(HERE / "replay.mjs", str(runtime), *(str(folder / file) for file in (
            "app.zip", "trace.csv", "query.json"))))
    print(f"the same in Pyodide (Node): {found['seconds']:.1f} s, {found['completed']:,} requests "
          f"(target: under {PYODIDE_S:g} s)")


def main() -> None:
    """All of it; what needs the folder of facts says so where that is missing."""
    beside_peer()
    beside_lab()
    whole_sweep()
    text = azure_text()
    if text is None:
        print(f"replay of Azure's log: not run, {FACTS / AZURE} is not there (set FACTS)")
        return
    whole_replay(text)
    in_pyodide(text)
