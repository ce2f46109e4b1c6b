"""The same requests in sched-sim: do its steps agree with those that an engine ran, and does it tell how long they take?

Two questions, kept apart. **Decisions**: given how long each step took, the simulator must make every one of the engine's
decisions again (`differences` is empty): same sequences, tokens, block tables, copies, evictions, preemptions, hits.
**Times**: a cost model fitted on the steps of one run (`fitted`) predicts another run (`simulate` with that model).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.roofline.step import prompt_pairs
from pycore.serving.events import Event
from pycore.serving.plan import StepPlan
from pycore.serving.request import Request
from pycore.serving.scheduler import Scheduler
from pycore.simulation.arrivals import OpenLoop
from pycore.simulation.costs.custom import COEFFICIENTS, LinearCost
from pycore.simulation.costs.work import StepCost, StepWork
from pycore.simulation.records import Result
from pycore.simulation.run import Setup
from pycore.simulation.server import Engine as Simulated
from pycore.simulation.server import Running
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.replay import Arrival, Played, Step

if TYPE_CHECKING:
    from numpy import ndarray as Array

ROUNDS = 5


class Recorded:
    """The times that the steps of a run took, in order, as a cost model for exactly that run."""

    def __init__(self, lengths: Sequence[int]):
        self.lengths = lengths
        self.server: Running | None = None

    def step_ns(self, work: StepWork) -> int:
        """Nanoseconds of the server's next step; 1 beyond the end of the run that was recorded."""
        return next(self.decode_times(work), 1)

    def decode_times(self, work: StepWork) -> Iterator[int]:
        """Those of its next ones."""
        yield from islice(self.lengths, len(self.server.steps), None)
        while True:
            yield 1

    def limits_passed(self, longest: int, sequences: int, tokens: int) -> tuple[str, ...]:
        """None: it is told what happened."""
        return ()


class Told(Scheduler):
    """A scheduler that is told which tokens came, keeps what is in each plan, and takes every step by itself.

    `texts`: the tokens of each answer, by id; `stopped`: ids of those that an end token ended. Without them a simulator does
    not know what generated blocks hold, so that none of them is ever found again.
    """

    def __init__(self, *arguments, texts: Mapping[str, tuple[int, ...]], stopped: frozenset[str], **options):
        super().__init__(*arguments, **options)
        self.texts, self.stopped = texts, stopped
        self.spelled: list[tuple] = []

    def quiet_steps(self) -> int:
        return 0

    def schedule(self, now_ns: int, drafts: Mapping[str, int] | None = None) -> StepPlan:
        plan = super().schedule(now_ns, drafts)
        if not plan.empty:
            self.spelled.append((plan.items, plan.copies, plan.evicted, plan.preempted))
        return plan

    def complete(self, plan: StepPlan, now_ns: int, tokens: object = None, stopped: Iterable[str] = (), **more: object
                 ) -> tuple[Event, ...]:
        places = {item.sequence_id: self.sequences[item.sequence_id].generated for item in plan.items if item.emits}
        came = {name: self.texts[name][at] for name, at in places.items()}
        last = [name for name, at in places.items() if name in self.stopped and at == len(self.texts[name]) - 1]
        return super().complete(plan, now_ns, came, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling(Simulated):
    """A simulated engine whose scheduler is told what a run said."""

    played: Played

    def scheduler(self, *, hands_over: bool = False) -> Scheduler:
        plain = Simulated.scheduler(self, hands_over=hands_over)
        return Told(plain.policy, plain.pool, plain.limits, hands_over=hands_over,
                    texts={one.id: one.tokens for one in self.played.requests},
                    stopped=frozenset(one.id for one in self.played.requests if one.finish == "stop"))


def twin(engine: Engine, cost: StepCost, told: Played | None = None) -> Simulated:
    """An engine as the simulator describes it: the same policy, limits and pool, with a cost model. `told`: a run whose
    texts it is told. Raises InputError for an engine that swaps or drafts: no cost model of work alone tells its steps."""
    scheduler = engine.scheduler
    if scheduler.memory.host is not None or scheduler.limits.draft_tokens:
        raise InputError("engine", "swapping or drafting", "accepted: preemption by recomputation, and no drafts")
    pool = scheduler.pool
    same = {"policy": scheduler.policy, "limits": scheduler.limits, "cost": cost, "blocks": pool.total,
            "block_size": pool.block_size, "prefix_caching": pool.prefix_caching}
    return Simulated(**same) if told is None else Telling(**same, played=told)


def simulate(one: Simulated, requests: Iterable[Request]) -> tuple[Result, Running]:
    """The requests in the simulator: the result, and the server as it was left."""
    setup = Setup(engines=(one,))
    loop = setup.loop(OpenLoop(requests))
    server = loop.servers[0]
    if isinstance(one.cost, Recorded):
        one.cost.server = server
    for _ in loop.run():
        pass
    makespan = loop.close()
    return Result(policy=setup.policy, requests=loop.requests(makespan), servers=(server.record(),),
                  makespan_ns=makespan, request_ns=loop.request_ns), server


def requests(arrivals: Iterable[Arrival], played: Played | None = None) -> list[Request]:
    """What the simulator is asked. `played`: answers are as long as they were there."""
    lengths = {one.id: len(one.tokens) or 1 for one in played.requests} if played else {}
    asked = [one.generation.request(one.at_ns) for one in sorted(arrivals, key=lambda one: one.at_ns)]
    return [replace(one, output_tokens=lengths.get(one.id, one.output_tokens)) for one in asked]


def differences(engine: Engine, arrivals: Sequence[Arrival], played: Played) -> list[str]:
    """Where the simulator, told how long each step took and what was said, decides otherwise than the engine did, in words:
    the first step that differs and every request; empty where it decides the same."""
    times = Recorded([step.record.length_ns for step in played.steps])
    result, server = simulate(twin(engine, times, played), requests(arrivals))
    return _steps_differ(played.steps, result, server.scheduler.spelled) + _requests_differ(played, result)


def _steps_differ(steps: Sequence[Step], result: Result, spelled: Sequence[tuple]) -> list[str]:
    simulated = result.servers[0].steps
    for number, (ours, record, theirs) in enumerate(zip(steps, simulated, spelled, strict=False)):
        if ours.record != record:
            return [f"step {number}: the engine's {ours.record}, the simulator's {record}"]
        mine = (ours.items, ours.copies, ours.evicted, ours.preempted)
        if mine != theirs:
            return [f"step {number}: the engine computed {mine}, the simulator {theirs}"]
    if len(steps) != len(simulated):
        return [f"the engine took {len(steps)} steps, the simulator {len(simulated)}"]
    return []


def _requests_differ(played: Played, result: Result) -> list[str]:
    theirs = {one.id: (one.first_token_ns, one.finished_ns, one.generated_tokens, one.cached_tokens, one.preemptions)
              for one in result.requests}
    return [f"{one.id}: the engine's {ours}, the simulator's {theirs.get(one.id)}" for one in played.requests
            if (ours := (one.first_token_ns, one.last_token_ns, len(one.tokens), one.cached_tokens, one.preemptions))
            != theirs.get(one.id)]


def fitted(steps: Iterable[Step], source: str) -> LinearCost:
    """Coefficients by least squares of the relative error over the steps of a run, none below 0.

    An error counts relative to what the fit itself says of a step, found in a few rounds: relative to the time measured,
    steps that happened to be short would count most, and all predictions would be low. A coefficient that would be negative
    is left out and the others are fitted again. Beyond the lengths in the run nothing holds the coefficients of prompts.
    Raises InputError for no steps.
    """
    import numpy

    steps = tuple(steps)
    if not steps:
        raise InputError("steps", 0, "accepted: a run of at least one step")
    shapes = numpy.array([features(step.work) for step in steps], dtype=float)
    micro = numpy.array([step.record.length_ns / 1e3 for step in steps])
    weights = numpy.ones(len(micro))
    for _ in range(ROUNDS):
        found = _not_negative(shapes, micro, weights)
        weights = 1 / numpy.maximum(shapes @ found, micro.min())
    return LinearCost(source=source, **dict(zip(COEFFICIENTS, found.tolist(), strict=True)))


def _not_negative(shapes: "Array", micro: "Array", weights: "Array") -> "Array":
    """Coefficients (features) of weighted least squares over shapes (steps, features), none below 0."""
    import numpy

    kept = [place for place in range(shapes.shape[1]) if shapes[:, place].any()]
    found = numpy.zeros(shapes.shape[1])
    while kept:
        scale = shapes[:, kept].max(axis=0)
        weighed = shapes[:, kept] / scale * weights[:, None]
        part = numpy.linalg.lstsq(weighed, micro * weights, rcond=None)[0]
        if (part >= 0).all():
            found[kept] = part / scale
            break
        del kept[int(part.argmin())]
    return found


def features(work: StepWork) -> tuple[int, ...]:
    """What the coefficients of `pycore.simulation.costs.custom` multiply, in their order."""
    before = sum([cached for _, cached in work.chunks])
    pairs = sum([prompt_pairs(tokens, cached, None) for tokens, cached in work.chunks])
    return (1, work.sequences, work.decoding + work.prompt_tokens, work.cached + before, pairs, 1 if work.chunks else 0)
