"""sched-sim: the scheduler that serves, under a simulated clock. The question, the answer, and how the core composes it."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pycore.errors import UnknownName
from pycore.knobs import knob
from pycore.ledger import Term, terms_in
from pycore.nouns import Deployment
from pycore.serving.limits import Limits
from pycore.simulation.generate import Generated, generate
from pycore.simulation.goodput import Slo
from pycore.simulation.metrics import Metrics, measure
from pycore.simulation.records import Result
from pycore.simulation.run import Setup
from pycore.simulation.run import steps as simulate
from pycore.simulation.scene import Scene, engine, scene
from pycore.simulation.selfcheck import Check, selfcheck
from pycore.simulation.traces.reader import read_trace
from pycore.simulation.workload import parse
from pycore.systems import infersize

SCHEDULERS = ("fcfs", "decode-first", "sjf", "chunked", "cache-aware", "slo-aware", "priority", "disaggregated")
COSTS = ("auto", "roofline", "tables", "custom")
ENGINES = ("vllm", "vllm-0.20", "sglang")
ROUTERS = ("round-robin", "least-loaded", "prefix-affinity")

LABELS = {"fcfs": "FCFS, prefill first", "decode-first": "FCFS, decode first", "sjf": "Shortest job first",
          "chunked": "Chunked prefill", "cache-aware": "Cache-aware", "slo-aware": "SLO-aware", "priority": "Priority",
          "disaggregated": "Prefill and decode apart"}
PRESET_NAMES = {"stall": "long-prompt-stall"}
CONTEXT = 8192  # what the pool's size hardly depends on

WORKLOAD, SCHEDULING, MACHINE, TARGETS, MORE = "Workload", "Scheduling", "Machine", "Targets", "Sweeps and intervals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The question, every field with its meaning, unit and range."""

    scheduler: str = knob("chunked", "Scheduler", choices=SCHEDULERS, group=SCHEDULING,
                          help="The policy under test: who advances in each step.")
    against: str = knob("fcfs", "Beside it", group=SCHEDULING,
                        help="Policies run on the same trace for comparison, separated by commas; empty for none.")
    workload: str = knob("stall", "Workload", group=WORKLOAD,
                         help="A preset (stall, chat, rag, code, agents) or a description such as "
                              "'poisson rate=8 prompt=lognormal:1024 output=256 requests=500'.")
    trace: str = knob("", "Trace file", long=True, group=WORKLOAD,
                      help="Paste or drop a trace (CSV, JSON or JSON lines); it replaces the workload.")
    limit: int = knob(0, "Requests", low=0, high=1_000_000, group=WORKLOAD, zero="as the workload says",
                      help="Take at most so many requests of it.")
    seed: int = knob(1, "Seed", low=0, high=2**31 - 1, group=WORKLOAD, help="Same seed, same run.")
    model: str = knob("llama-3.1-8b", "Model", suggestions="models", group=MACHINE,
                      help="A catalogue name: its shape gives step times and KV bytes.")
    quant: str = knob("auto", "Weights", suggestions="formats", group=MACHINE,
                      help="Number format of the weights. auto = as the checkpoint is stored.")
    hardware: str = knob("rtx 4090", "Accelerator", suggestions="accelerators", group=MACHINE,
                         help="The card that serves.")
    count: int = knob(1, "Count", low=1, high=64, group=MACHINE, help="Devices of one replica.")
    tp: int = knob(0, "Tensor parallel", low=0, high=64, group=MACHINE, zero="automatic",
                   help="Each matrix split over this many devices.")
    replicas: int = knob(1, "Replicas", low=1, high=64, group=MACHINE, help="Copies of the engine behind a router.")
    router: str = knob("round-robin", "Router", choices=ROUTERS, group=MACHINE, help="How requests are spread.")
    engine: str = knob("vllm", "Engine", choices=ENGINES, group=MACHINE,
                       help="Whose memory rules size the KV pool and whose defaults the limits take.")
    cost: str = knob("auto", "Step times", choices=COSTS, group=MACHINE,
                     help="auto = measured kernel tables where they exist for this card and model, else the roofline.")
    custom_cost: str = knob("", "Own step times", long=True, group=MACHINE,
                            help="A JSON table of step times, used with Step times = custom.")
    overhead_us: float = knob(0.0, "Host overhead", unit="µs a step", low=0.0, high=1e6, group=MACHINE,
                              help="Time the host adds to every step.")
    chunk_budget: int = knob(512, "Chunk budget", unit="tokens", low=1, high=1 << 20, group=SCHEDULING,
                             help="Tokens a step may carry under chunked prefill (C).")
    max_sequences: int = knob(256, "Sequences", low=1, high=1 << 16, group=SCHEDULING,
                              help="Most sequences that run at the same time (--max-num-seqs).")
    max_batched_tokens: int = knob(8192, "Tokens a step", unit="tokens", low=1, high=1 << 20, group=SCHEDULING,
                                   help="Most tokens in one step of the other policies (--max-num-batched-tokens).")
    kv_blocks: int = knob(0, "KV blocks", low=0, high=1 << 24, group=SCHEDULING, zero="what infersize predicts",
                          help="Blocks of the KV pool of one replica.")
    block_size: int = knob(16, "Block", unit="tokens", low=1, high=1024, group=SCHEDULING, help="Tokens in a KV block.")
    prefix_cache: bool = knob(True, "Prefix cache", group=SCHEDULING, help="Blocks of equal prefixes are shared.")
    preemption: str = knob("recompute", "Preemption", choices=("recompute", "swap"), group=SCHEDULING,
                           help="What happens to a sequence that loses its blocks.")
    prefill_share: str = knob("1:1", "Prefill : decode", group=SCHEDULING,
                              help="Replicas of the prefill and of the decode pool when disaggregated, as P:D.")
    link_gb_s: float = knob(0.0, "KV link", unit="GB/s", low=0.0, high=10000.0, group=SCHEDULING, zero="the card's own link",
                            help="Bandwidth between the pools when disaggregated.")
    slo_ttft_ms: float = knob(2000.0, "TTFT target", unit="ms", low=0.0, high=1e9, group=TARGETS, zero="none",
                              help="Time to first token to stay under (goodput, and the slack of slo-aware).")
    slo_tpot_ms: float = knob(100.0, "TPOT target", unit="ms", low=0.0, high=1e9, group=TARGETS, zero="none",
                              help="Time per output token to stay under.")
    sweep: str = knob("none", "Sweep", choices=("none", "rate", "chunk"), group=MORE,
                      help="Repeat the run over arrival rates (the knee) or chunk budgets (TTFT against TPOT).")
    draws: int = knob(0, "Draws", low=0, high=200, group=MORE, zero="none",
                      help="Runs with step times drawn from their uncertainty: the spread explodes near saturation.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long answer is."""

    stage: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One policy on the trace. `checks`: the laws that the run was held against."""

    policy: str
    label: str
    result: Result
    metrics: Metrics
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything that follows from a Query; `runs` in the order of the policies, the question's own first."""

    query: Query
    scene: Scene
    workload_text: str
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        """The scene's terms, then each run's."""
        return (self.scene.blocks, *(term for run in self.runs for term in terms_in(run.metrics)))


def policies(query: Query) -> tuple[str, ...]:
    """The policies to run, each once, the question's own first. Raises InputError."""
    names = [query.scheduler] + [name.strip().lower().replace("_", "-") for name in query.against.split(",") if name.strip()]
    for name in names:
        if name not in SCHEDULERS:
            raise UnknownName("against", name, "accepted: " + ", ".join(SCHEDULERS), near(name))
    return tuple(dict.fromkeys(names))


def near(name: str) -> tuple[str, ...]:
    """Policies that are spelt alike."""
    return tuple(difflib.get_close_matches(name, SCHEDULERS, 3, 0.5))


def machine(query: Query) -> Deployment:
    """The deployment of one replica. Raises InvalidQuery."""
    return infersize.resolve(infersize.Query(
        model=query.model, quant=query.quant, gpu=query.hardware, count=query.count, tp=query.tp, engine=query.engine,
        sequences=query.max_sequences, max_batched_tokens=query.max_batched_tokens, context=CONTEXT, prompt=1024,
        output=256))


def requests(query: Query) -> Generated:
    """The workload's requests, or those of the trace. Raises InputError."""
    if query.trace.strip():
        trace = read_trace(query.trace, name="trace", limit=query.limit)
        return generate(parse("replay trace=trace"), block_size=query.block_size, traces={"trace": trace})
    workload = parse(f"{PRESET_NAMES.get(query.workload, query.workload)} seed={query.seed}")
    if query.limit:
        workload = replace(workload, requests=min(query.limit, workload.requests or query.limit))
    return generate(workload, block_size=query.block_size)


def limits(query: Query, deployment: Deployment) -> Limits:
    """What one step may hold."""
    return Limits(max_sequences=query.max_sequences, max_batched_tokens=query.max_batched_tokens,
                  max_model_length=deployment.model.max_context, chunk_budget=query.chunk_budget)


def steps(query: Query) -> Iterator[Progress | Answer]:
    """Progress while policies run one after the other, then the Answer.

    Raises InvalidQuery, InputError, NotKnown; Stuck where a policy neither advances nor refuses.
    """
    names, deployment = policies(query), machine(query)
    found = scene(deployment, cost=query.cost, custom=query.custom_cost, overhead_us=query.overhead_us,
                  kv_blocks=query.kv_blocks, block_size=query.block_size, max_sequences=query.max_sequences,
                  link_gb_s=query.link_gb_s)
    generated = requests(query)
    runs = []
    for index, name in enumerate(names):
        for item in one_run(query, found, generated, name):
            if isinstance(item, Run):
                runs.append(item)
            else:
                share = item.left / max(1, len(generated.requests))
                yield Progress(stage=f"{name}: {item.left:,} of {len(generated.requests):,} requests",
                               fraction=(index + min(1.0, share)) / len(names))
    yield Answer(query=query, scene=found, workload_text=generated.workload.text, runs=tuple(runs), notes=generated.notes)


def one_run(query: Query, found: Scene, generated: Generated, name: str) -> Iterator[Any]:
    """Progress of one policy's run, then its Run."""
    one = engine(found, name, limits=limits(query, found.deployment), prefix_caching=query.prefix_cache,
                 preemption=query.preemption, block_size=query.block_size)
    setup = Setup(engines=(one,) * query.replicas, seed=query.seed)
    for item in simulate(setup, generated.traffic()):
        if not isinstance(item, Result):
            yield item
    slo = Slo(ttft_s=query.slo_ttft_ms / 1000 or None, tpot_s=query.slo_tpot_ms / 1000 or None)
    metrics = measure(item, slo, tdp_w=found.deployment.accelerator.tdp_w)
    yield Run(policy=name, label=LABELS[name], result=item, metrics=metrics, checks=selfcheck(item))


def answer(query: Query) -> Answer:
    """The whole answer."""
    *_, last = steps(query)
    return last
