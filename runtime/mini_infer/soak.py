"""A soak: random requests, sense and nonsense, from patient clients and rude ones, to the real server over HTTP.

Nothing may leak (blocks, texts, threads, tasks, sockets, memory), nothing be answered wrongly (every greedy text is the one
that its prompt has alone in a fresh engine), nothing hang (each request has a deadline, /health answers within a bound). The
run is cut into stints, each a server of its own with other settings: pools too small for all who have a seat, so that they
are preempted, by recomputing and by swapping, with guesses and without.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

import httpx
import torch

from pycore.errors import InputError
from runtime.mini_infer.setup import Say, Setup, prepare
from runtime.mini_infer.soaking.asks import draw
from runtime.mini_infer.soaking.clients import Clients
from runtime.mini_infer.soaking.findings import Fault, Findings
from runtime.mini_infer.soaking.hosting import Before, Hosted, Logged, hosted, settle
from runtime.mini_infer.soaking.oracle import MOST_TOKENS, Known, known
from runtime.mini_infer.soaking.watch import Health, Memory, spread
from runtime.mini_infer.source import Source

SEATS = 6
KINDS = (("recompute", ""), ("swap", "n-gram"), ("recompute", "n-gram"), ("swap", ""))
POLICIES = ("chunked", "chunked", "fcfs", "decode-first", "sjf", "cache-aware", "slo-aware", "priority")
PAUSE_S = 0.02
SAYS_EVERY_S = 5.0
MUST = ("greedy texts", "texts begun", "cancelled", "is gone", "half a body", "malformed", "status 429", "status 400",
        "status 413", "copies", "evicted", "preempted", "swapped_out", "swapped_in", "cached_tokens", "accepted")
"""What has to have happened, or the run has shown nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is wrong beyond them. Memory: growth after the warm-up, the larger of `growth_bytes` and a share of what is held.

    `deadline_s` is far beyond any request's turn, so that only what never ends reaches it; `health_s` leaves room for a busy
    machine: what is looked for is a loop that stands still. `stints`: at least
    so many, of `stint_s` seconds where there are more.
    """

    deadline_s: float = 120.0
    health_s: float = 5.0
    settle_s: float = 20.0
    stint_s: float = 15.0
    stints: int = len(KINDS)
    growth_bytes: int = 32 << 20
    growth_share: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a soak has seen. `never`: what should have happened and did not. Times in seconds, memory in bytes (None where
    the system does not say)."""

    model: str
    seed: int
    concurrency: int
    seconds: float
    stints: int
    prompts: int
    counts: dict[str, int]
    health: dict[str, float | None]
    memory: dict[str, float | int | None]
    never: tuple[str, ...]
    kinds: dict[str, int]
    faults: tuple[Fault, ...]

    @property
    def holds(self) -> bool:
        return not self.kinds and not self.never

    def as_dict(self) -> dict[str, Any]:
        """It as plain data, `holds` first."""
        return {"holds": self.holds} | asdict(self)


@dataclass(slots=True, kw_only=True)
class Soak:
    """A run under way."""

    source: Source
    prompts: Sequence[Known]
    seed: int
    concurrency: int
    seconds: float
    bounds: Bounds
    say: Say
    findings: Findings = field(default_factory=Findings)
    memory: Memory = field(default_factory=Memory)
    times: list[float] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    asked_s: float = 0.0

    @property
    def longest(self) -> int:
        """Tokens of the longest text that the servers take."""
        return min(self.source.model.configuration.context, max(len(one.prompt) for one in self.prompts) + MOST_TOKENS + 1)

    def run(self) -> int:
        """All stints, one after the other; how many there were."""
        stints = max(self.bounds.stints, round(self.seconds / self.bounds.stint_s))
        with Logged(self.findings):
            for number in range(stints):
                if self.findings.hopeless:
                    return number
                before = Before()
                self.stint(number, before, self.seconds / stints)
                before.left(self.bounds.settle_s, self.findings)
        return stints

    def stint(self, number: int, before: Before, seconds: float) -> None:
        """A server from its start to its end, asked for so many seconds."""
        dice = Random(f"{self.seed}/{number}")
        setup = settings(number, dice, self.longest)
        self.findings.settings = self._words(number, setup)
        engine = setup.engine(self.source.model)
        with hosted(engine, self.source.words, 3 * self.concurrency // 2, self.findings) as host:
            with Health(host.port, self.findings, self.memory, self.bounds.health_s) as health:
                asyncio.run(self._visited(host, number, time.monotonic() + seconds))
                settle(host, self.bounds.settle_s, self.findings)
                before.remembered(self.bounds.settle_s, self.findings)
            self.times += health.times
        self.asked_s += seconds

    def _words(self, number: int, setup: Setup) -> str:
        names = ("preemption", "draft", "policy", "block_size", "kv_blocks", "max_batched_tokens", "prefix_caching")
        chosen = ((name, getattr(setup, name)) for name in names)
        return f"stint {number}: " + ", ".join(f"{name} {value}" for name, value in chosen if value != "")

    async def _visited(self, host: Hosted, number: int, until: float) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.concurrency)
        async with httpx.AsyncClient(base_url=host.url, timeout=None, trust_env=False, limits=limits) as http:
            clients = Clients(http, host.port, self.findings, self.bounds.deadline_s)
            teller = asyncio.create_task(self._told())
            try:
                await asyncio.gather(*(self._visit(clients, Random(f"{self.seed}/{number}/{one}"), until)
                                       for one in range(self.concurrency)))
            finally:
                teller.cancel()

    async def _visit(self, clients: Clients, dice: Random, until: float) -> None:
        """One client after the other, until it is time."""
        while time.monotonic() < until and not self.findings.hopeless:
            await clients.send(draw(dice, self.prompts, self.longest))
            await asyncio.sleep(dice.random() * PAUSE_S)

    async def _told(self) -> None:
        while True:
            await asyncio.sleep(SAYS_EVERY_S)
            self.say(self.progress())

    def progress(self) -> str:
        """A line on how it stands."""
        counts, faults = self.findings.counts, self.findings.kinds.total()
        held = f", {self.memory.samples[-1][1] >> 20} MiB" if self.memory.samples else ""
        return (f"{self.asked_s:.0f} of {self.seconds:.0f} s: {counts['requests']} requests, {counts['texts']} texts, "
                f"{counts['preempted']} preemptions{held}, {faults} faults")

    def report(self, stints: int) -> Report:
        """What there is to say at the end; memory is judged here."""
        memory, findings = self._remembered(), self.findings
        return Report(model=self.source.name, seed=self.seed, concurrency=self.concurrency, stints=stints,
                      seconds=time.monotonic() - self.begun, prompts=len(self.prompts),
                      counts=dict(sorted(findings.counts.items())),
                      health=spread(self.times), memory=memory, kinds=dict(findings.kinds), faults=tuple(findings.faults),
                      never=tuple(name for name in MUST if not findings.counts[name]))

    def _remembered(self) -> dict[str, float | int | None]:
        drift, samples = self.memory.drift(), self.memory.samples
        found = {"first_bytes": samples[0][1] if samples else None, "last_bytes": samples[-1][1] if samples else None,
                 "slope_bytes_per_s": None, "slope_error_bytes_per_s": None, "growth_bytes": None, "accepted_bytes": None}
        if drift is None:
            return found
        accepted = max(self.bounds.growth_bytes, int(self.bounds.growth_share * samples[-1][1]))
        if drift.growth > accepted:
            self.findings.fault("memory", f"grew by {drift.growth:.0f} bytes in {drift.seconds:.0f} s; accepted: {accepted}")
        return found | {"slope_bytes_per_s": drift.bytes_per_s, "slope_error_bytes_per_s": drift.error,
                        "growth_bytes": drift.growth, "accepted_bytes": accepted}


def one_thread() -> None:
    """Let torch compute on one thread, in the whole process."""
    torch.set_num_threads(1)


def settings(number: int, dice: Random, longest: int) -> Setup:
    """What the server of a stint is told at its start: room for one longest text and half as much again."""
    preemption, draft = KINDS[number % len(KINDS)]
    policy, size = dice.choice(POLICIES), dice.choice((4, 8, 16))
    blocks = -(-longest // size)
    return Setup(preemption=preemption, draft=draft, policy=policy, block_size=size, kv_blocks=blocks + max(2, blocks // 2),
                 host_blocks=blocks if preemption == "swap" else 0, max_sequences=SEATS, max_model_length=longest,
                 max_batched_tokens=dice.choice((24, 64, longest)) if policy == "chunked" else longest,
                 prefix_caching=number % (2 * len(KINDS)) != 6)


def soak(source: Source, *, seconds: float, seed: int = 0, concurrency: int = 16, bounds: Bounds | None = None,
         say: Say = lambda text: None) -> Report:
    """Soak a model for so many seconds. `say` is told now and then how it stands; the model's projections are put in place.

    The requests follow from the seed, their times do not. Raises InputError for a model that answers too little clearly.
    """
    if not 0 < seconds < float("inf"):
        raise InputError("seconds", seconds, "accepted: a number above 0")
    if concurrency < 1:
        raise InputError("concurrency", concurrency, "accepted: at least 1")
    prepare(source.model, "auto", say)
    run = Soak(source=source, prompts=known(source, say), seed=seed, concurrency=concurrency, seconds=seconds,
               bounds=bounds or Bounds(), say=say)
    return run.report(run.run())
