"""The question of sched-sim: its fields, what they may be, and what their texts mean."""

import difflib
from dataclasses import dataclass

from pycore.cache import is_upload, upload
from pycore.errors import InputError, UnknownName
from pycore.knobs import knob
from pycore.simulation.traces.reader import read_trace
from pycore.simulation.traces.trace import Trace

SCHEDULERS = ("fcfs", "decode-first", "sjf", "chunked", "cache-aware", "slo-aware", "priority", "disaggregated")
COSTS = ("auto", "roofline", "tables", "custom")
ENGINES = ("vllm", "vllm-0.20", "sglang")
ROUTERS = ("round-robin", "least-loaded", "prefix-affinity")

LABELS = {"fcfs": "FCFS, prefill first", "decode-first": "FCFS, decode first", "sjf": "Shortest job first",
          "chunked": "Chunked prefill", "cache-aware": "Cache-aware", "slo-aware": "SLO-aware", "priority": "Priority",
          "disaggregated": "Prefill and decode apart"}
PRESET_NAMES = {"stall": "long-prompt-stall"}
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
                      help="A request log as CSV, JSON or JSON lines, or a file of it, gzipped or not; it replaces the "
                           "workload.")
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
    max_batched_tokens: int = knob(0, "Tokens a step", unit="tokens", low=0, high=1 << 20, group=SCHEDULING,
                                   zero="the engine's default for the card",
                                   help="Most tokens in one step of the other policies (--max-num-batched-tokens).")
    kv_blocks: int = knob(0, "KV blocks", low=0, high=1 << 24, group=SCHEDULING, zero="what infersize predicts",
                          help="Blocks of the KV pool of one replica.")
    block_size: int = knob(16, "Block", unit="tokens", low=1, high=1024, group=SCHEDULING, help="Tokens in a KV block.")
    prefix_cache: bool = knob(True, "Prefix cache", group=SCHEDULING, help="Blocks of equal prefixes are shared.")
    preemption: str = knob("recompute", "Preemption", choices=("recompute", "swap"), group=SCHEDULING,
                           help="What happens to a sequence that loses its blocks.")
    steps_in_flight: int = knob(1, "Steps in flight", low=1, high=2, group=SCHEDULING,
                                help="2: the next step is planned while one runs (vLLM's --async-scheduling).")
    prefill_share: str = knob("1:1", "Prefill : decode", group=SCHEDULING,
                              help="Replicas of the prefill and of the decode pool when disaggregated, as P:D.")
    link_gb_s: float = knob(0.0, "KV link", unit="GB/s", low=0.0, high=10000.0, group=SCHEDULING, zero="the card's own link",
                            help="Bandwidth between the pools when disaggregated.")
    slo_ttft_ms: float = knob(2000.0, "TTFT target", unit="ms", low=0.0, high=1e9, group=TARGETS, zero="none",
                              help="Time to first token to stay under (goodput, and the slack of slo-aware).")
    slo_tpot_ms: float = knob(100.0, "TPOT target", unit="ms", low=0.0, high=1e9, group=TARGETS, zero="none",
                              help="Time per output token to stay under.")
    request: str = knob("", "Why did it wait?", group=MORE, zero="those that waited longest",
                        help="Id of a request whose waiting is to be explained, such as 17.")
    sweep: str = knob("none", "Sweep", choices=("none", "rate", "chunk"), group=MORE,
                      help="Repeat the run over arrival rates (the knee) or chunk budgets (TTFT against TPOT).")
    draws: int = knob(0, "Draws", low=0, high=200, group=MORE, zero="none",
                      help="Runs with step times drawn from their uncertainty: the spread explodes near saturation.")


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


def own_name(query: Query) -> str:
    """What the reader's own trace is called; '' where the workload is none."""
    return query.trace.rpartition(":")[2] if is_upload(query.trace) else "your trace" if query.trace.strip() else ""


def own_trace(query: Query) -> Trace:
    """The trace in the question: pasted, or a file that the page keeps. Raises TraceError, InputError."""
    name, content = upload("trace", query.trace) if is_upload(query.trace) else ("trace", query.trace)
    return read_trace(content, name=name, limit=query.limit, seed=query.seed)


def pools(text: str) -> tuple[int, int]:
    """(prefill, decode) of 'P:D'. Raises InputError."""
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and 1 <= int(part) <= 64 for part in parts):
        raise InputError("prefill_share", text, "accepted: P:D with whole numbers from 1 to 64, such as 1:2")
    return int(parts[0]), int(parts[1])
