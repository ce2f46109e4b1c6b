"""A soak: random requests, sense and nonsense, from patient clients and rude ones, to the real server over HTTP.

Nothing may leak (blocks, texts, threads, tasks, sockets, memory), nothing be answered wrongly (every greedy text is the one
that its prompt has alone in a fresh engine with the same numbers, under the same penalties), nothing hang (each request has
a deadline, /health answers within a bound). The run is cut into stints, each a server of its own with other settings: pools
too small for all who have a seat, so that they are preempted, by recomputing and by swapping; guesses by a model, by the
text itself, and none; keys and values in few bits, and weights.
"""

import asyncio
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any

import httpx
import torch

from pycore.errors import InputError
from runtime.mini_infer.setup import Say, prepare
from runtime.mini_infer.soaking import stints
from runtime.mini_infer.soaking.asks import draw
from runtime.mini_infer.soaking.clients import Clients
from runtime.mini_infer.soaking.findings import Fault, Findings
from runtime.mini_infer.soaking.hosting import Before, Hosted, Logged, hosted, settle
from runtime.mini_infer.soaking.stints import EIGHT, FLOAT, KINDS, MODEL, Judged, Stint, numbers_in, settings, texts_in
from runtime.mini_infer.soaking.watch import Health, Memory, set_apart, spread, trim
from runtime.mini_infer.source import Source

PAUSE_S = 0.02
SAYS_EVERY_S = 5.0
MUST = ("greedy texts", "texts begun", "cancelled", "is gone", "half a body", "malformed", "status 429", "status 400",
        "status 413", "copies", "evicted", "preempted", "swapped_out", "swapped_in", "cached_tokens", "accepted",
        "accepted from a model", "rejected from a model", "penalised texts", "texts with min_tokens")
"""What has to have happened, or the run has shown nothing of it; beside these, greedy texts in each kind of numbers."""


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

    def count(self, seconds: float) -> int:
        """Stints of a run of so many seconds."""
        return max(self.stints, round(seconds / self.stint_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a soak has seen. `never`: what should have happened and did not; `left_out`: numbers that this machine or model
    cannot be judged in. Times in seconds, memory in bytes (None where the system does not say)."""

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
    left_out: tuple[str, ...]
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
    """A run under way. `judged`: by the name of numbers; those that a stint would have and are not there are left out."""

    judged: dict[str, Judged]
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

    def run(self) -> int:
        """All stints, one after the other; how many there were."""
        count = self.bounds.count(self.seconds)
        with Logged(self.findings):
            for number in range(count):
                if self.findings.hopeless:
                    return number
                before = Before()
                self.stint(number, before, self.seconds / count)
                before.left(self.bounds.settle_s, self.findings)
                trim()
        return count

    def stint(self, number: int, before: Before, seconds: float) -> None:
        """A server from its start to its end, asked for so many seconds."""
        judged = self.judged.get(numbers_in(number), self.judged[FLOAT])
        setup = settings(number, Random(f"{self.seed}/{number}"), judged)
        if judged.numbers == FLOAT and EIGHT in self.judged:  # nearly the same model: some of its guesses are wrong
            setup = replace(setup, drafter=self.judged[EIGHT].source.model)
        self.findings.settings, counted = f"stint {number}: {setup.words()}", self.findings.counts.copy()
        engine = setup.engine(judged.source.model)
        with hosted(engine, judged.source.words, 3 * self.concurrency // 2, self.findings) as host:
            with Health(host.port, self.findings, self.memory, self.bounds.health_s) as health:
                asyncio.run(self._visited(host, number, judged, time.monotonic() + seconds))
                settle(host, self.bounds.settle_s, self.findings)
                before.remembered(self.bounds.settle_s, self.findings)
            self.times += health.times
        self.asked_s += seconds
        self._count(setup, self.findings.counts - counted)

    def _count(self, setup: Stint, counts: Counter[str]) -> None:
        """What a stint adds to that which only some stints can show."""
        self.findings.count(texts_in(setup.numbers), counts["greedy texts"])
        if setup.draft == MODEL:
            self.findings.count("accepted from a model", counts["accepted"])
            self.findings.count("rejected from a model", counts["drafted"] - counts["accepted"])

    async def _visited(self, host: Hosted, number: int, judged: Judged, until: float) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.concurrency)
        async with httpx.AsyncClient(base_url=host.url, timeout=None, trust_env=False, limits=limits) as http:
            clients = Clients(http, host.port, self.findings, self.bounds.deadline_s)
            teller = asyncio.create_task(self._told())
            try:
                await asyncio.gather(*(self._visit(clients, Random(f"{self.seed}/{number}/{one}"), judged, until)
                                       for one in range(self.concurrency)))
            finally:
                teller.cancel()

    async def _visit(self, clients: Clients, dice: Random, judged: Judged, until: float) -> None:
        """One client after the other, until it is time."""
        while time.monotonic() < until and not self.findings.hopeless:
            await clients.send(draw(dice, judged.prompts, judged.longest))
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

    def report(self, count: int) -> Report:
        """What there is to say at the end; memory is judged here."""
        memory, findings = self._remembered(), self.findings
        must = MUST + tuple(texts_in(numbers) for numbers in self.judged)
        return Report(model=self.judged[FLOAT].source.name, seed=self.seed, concurrency=self.concurrency, stints=count,
                      seconds=time.monotonic() - self.begun, prompts=sum(len(one.prompts) for one in self.judged.values()),
                      counts=dict(sorted(findings.counts.items())),
                      health=spread(self.times), memory=memory, kinds=dict(findings.kinds), faults=tuple(findings.faults),
                      never=tuple(name for name in must if not findings.counts[name]),
                      left_out=tuple(sorted(stints.numbers_of(count) - self.judged.keys())))

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
    bounds = bounds or Bounds()
    judged = stints.answered(source, stints.numbers_of(bounds.count(seconds)), say)
    run = Soak(judged=judged, seed=seed, concurrency=concurrency, seconds=seconds, bounds=bounds, say=say)
    with set_apart():
        return run.report(run.run())
