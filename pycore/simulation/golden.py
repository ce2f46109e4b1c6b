"""The golden runs: two real vLLM runs, and the same requests replayed by the simulator. `validation` compares them.

Llama-3.1-8B under vLLM 0.19.0 on an RTX 4090 (the KV pool is the bottleneck: requests are preempted all the time) and
on an RTX PRO 6000 (128 seats are). One model of the engine for both, nothing fitted to either: flags and pool from the
engine's log, step times from the cards' own kernel tables, no host overhead (see `costs.overhead`).

What is inferred: which prompts share a prefix (`data/serving-profiles/README.md`). `shared=False` leaves it out.
"""

import functools
from dataclasses import dataclass, replace

from pycore import catalog, facts
from pycore.ledger import Term
from pycore.nouns import Deployment, Parallel
from pycore.serving.limits import Limits
from pycore.serving.policies.chunked import Chunked
from pycore.serving.request import Request
from pycore.simulation.arrivals import OpenLoop
from pycore.simulation.costs.profile import DATASET, packaged
from pycore.simulation.costs.tables import TableCost, largest_captured
from pycore.simulation.costs.work import NANOSECONDS
from pycore.simulation.run import Setup
from pycore.simulation.server import Engine
from pycore.vram.capacity import capacity
from pycore.vram.plan import memory

MODEL_LENGTH, MEMORY_FRACTION = 32_768, 0.9
OWN_KEYS = 1_000_000
"""Blocks of one request are numbered from its own million: no prompt is that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One request of a real run, nanoseconds since the first arrival."""

    id: str
    arrival_ns: int
    queued_ns: int
    first_token_ns: int
    finished_ns: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """The engine's log line of one second. `kv_percent` None where the run did not log it."""

    second: float
    running: int
    waiting: int
    kv_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRun:
    """A real run and the flags that it ran under."""

    id: str
    accelerator: str
    model: str
    engine: str
    max_sequences: int
    max_batched_tokens: int
    block_size: int
    kv_blocks: int
    profile: str
    source: str
    requests: tuple[Reported, ...]
    seconds: tuple[Second, ...]


# What ran ------------------------------------------------------------------------------------------------------------


@functools.cache
def golden_runs() -> tuple[GoldenRun, ...]:
    """The real runs that come with the product."""
    requests, seconds = facts.table("requests", DATASET), facts.table("seconds", DATASET)
    return tuple(GoldenRun(
        **{name: row[name] for name in ("accelerator", "model", "engine", "profile", "source")}, id=row["run"],
        **{name: int(row[name]) for name in ("max_sequences", "max_batched_tokens", "block_size", "kv_blocks")},
        requests=tuple(map(reported, (line for line in requests if line["run"] == row["run"]))),
        seconds=logged([line for line in seconds if line["run"] == row["run"]])) for row in facts.table("runs", DATASET))


def reported(row: dict[str, str]) -> Reported:
    """A row of requests.csv."""
    times = {name: round(float(row[column]) * NANOSECONDS) for name, column in (
        ("arrival_ns", "arrival_s"), ("queued_ns", "queued_s"), ("first_token_ns", "first_token_s"),
        ("finished_ns", "last_token_s"))}
    return Reported(id=row["request"], prompt_tokens=int(row["prompt_tokens"]), output_tokens=int(row["output_tokens"]),
                    **times)


def logged(rows: list[dict[str, str]]) -> tuple[Second, ...]:
    """Rows of seconds.csv of one run; a KV column of zeros was not logged."""
    known = any(float(row["kv_percent"]) for row in rows)
    return tuple(Second(second=float(row["second"]), running=int(row["running"]), waiting=int(row["waiting"]),
                        kv_percent=float(row["kv_percent"]) if known else None) for row in rows)


@functools.cache
def shared_prefixes() -> dict[str, tuple[str, int]]:
    """Request -> (earlier request whose prompt it repeats, full blocks of it). Inferred."""
    return {row["request"]: (row["parent"], int(row["blocks"])) for row in facts.table("shared_prefixes", DATASET)}


def block_key(request: str, index: int, shared: dict[str, tuple[str, int]]) -> int:
    """The key of a block: the parent's where the prefix is shared, else one that no other request has."""
    while (found := shared.get(request)) and index < found[1]:
        request = found[0]
    return (int(request) + 1) * OWN_KEYS + index


# The replay ----------------------------------------------------------------------------------------------------------


def golden_traffic(run: GoldenRun, *, shared: bool = True) -> OpenLoop:
    """The run's requests as they arrived."""
    known = shared_prefixes() if shared else {}
    return OpenLoop([Request(
        id=one.id, arrival_ns=one.arrival_ns, prompt_tokens=one.prompt_tokens, output_tokens=one.output_tokens,
        prefix_hashes=tuple(block_key(one.id, index, known)
                            for index in range((one.prompt_tokens + one.output_tokens) // run.block_size)))
        for one in run.requests])


def golden_setup(run: GoldenRun, *, blocks: int = 0, steps_in_flight: int = 2, unevenness: float | None = None) -> Setup:
    """vLLM 0.19 with the run's flags: chunked prefill, prefix caching, CUDA graphs, asynchronous scheduling, admission
    only when the whole prompt fits. `blocks`: another pool; `unevenness`: another share than the card's own."""
    tables = next(tables for tables in packaged() if tables.id == run.profile)
    if unevenness is not None:
        tables = replace(tables, unevenness=unevenness)
    limits = Limits(max_sequences=run.max_sequences, max_batched_tokens=run.max_batched_tokens,
                    max_model_length=MODEL_LENGTH, steps_in_flight=steps_in_flight, reserve_known=True)
    engine = Engine(policy=Chunked(), limits=limits, cost=TableCost(tables, largest_captured(run.max_sequences)),
                    blocks=blocks or run.kv_blocks, block_size=run.block_size, null_block=True)
    return Setup(engines=(engine,), notes=("prefixes shared between prompts are inferred",))


def predicted_pool(run: GoldenRun) -> Term:
    """What infersize says of the run's KV pool, in blocks; until vLLM 0.20 its rules are those of 0.19."""
    cache = catalog.kv_format("fp16")
    deployment = Deployment(
        model=catalog.model("llama-3.1-8b"), weights=catalog.weight_format("bf16"), keys=cache, values=cache,
        accelerator=catalog.accelerator(run.accelerator), parallel=Parallel(), engine="vllm-0.20", context=MODEL_LENGTH,
        sequences=run.max_sequences, prompt=1024, output=256, memory_fraction=MEMORY_FRACTION,
        max_batched_tokens=run.max_batched_tokens)
    return capacity(deployment, memory(deployment)).blocks
