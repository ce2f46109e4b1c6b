"""A trace on a running engine: requests come when they are due, every step is timed and written down as sched-sim would.

    played = play(engine, arrivals, Wall())                    a real run, in real time
    played = play(engine, arrivals, Virtual(cost))             the same decisions under a cost model's clock

A step begins when the one before it ended, or when the request came that it had to wait for, and ends when its tokens are
there: what Python does between two steps belongs to the later one, so that the steps tile the time in which there was work.
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from pycore.errors import StudioError
from pycore.serving.plan import Scheduled, StepPlan
from pycore.simulation.costs.work import StepCost, StepWork, work_of
from pycore.simulation.records import StepRecord, step_record
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.generation import Generation, Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request and when it comes, integer nanoseconds after the run begins."""

    at_ns: int
    generation: Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: its counts and times, what a cost model may look at, who took part in it, and what moved for it."""

    record: StepRecord
    work: StepWork
    items: tuple[Scheduled, ...]
    copies: tuple[tuple[int, int], ...]
    evicted: tuple[int, ...]
    preempted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What became of one request. Times in nanoseconds after the run began; None where there was no such token."""

    id: str
    arrival_ns: int
    first_token_ns: int | None
    last_token_ns: int | None
    tokens: tuple[int, ...]
    cached_tokens: int
    preemptions: int
    finish: str

    @property
    def ttft_ns(self) -> int | None:
        """First token less arrival."""
        return None if self.first_token_ns is None else self.first_token_ns - self.arrival_ns

    @property
    def tpot_ns(self) -> float | None:
        """(last token - first token) / (tokens - 1); None of an answer of one token."""
        if self.first_token_ns is None or len(self.tokens) < 2:
            return None
        return (self.last_token_ns - self.first_token_ns) / (len(self.tokens) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A whole run: steps in order, requests in order of arrival."""

    steps: tuple[Step, ...]
    requests: tuple[Served, ...]

    @property
    def makespan_ns(self) -> int:
        """End of the last step."""
        return self.steps[-1].record.end_ns if self.steps else 0


class Clock:
    """The time of a run as the engine is told it: a step's start until its tokens are there, then its end."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.start_ns = self.end_ns = self.cached = 0
        self.before: StepPlan | None = None

    def __call__(self) -> int:
        if self.engine is None or self.engine.last_plan is self.before:
            return self.start_ns
        if self.end_ns < self.start_ns:
            self.cached = self.engine.scheduler.pool.cached
            self.end_ns = max(self.start_ns + 1, self.passed(self.engine.last_plan))
        return self.end_ns

    def begin(self, start_ns: int) -> None:
        """A step is about to be planned."""
        self.start_ns, self.end_ns, self.before = start_ns, start_ns - 1, self.engine.last_plan

    def passed(self, plan: StepPlan) -> int:
        """The time at which a plan's step is over."""
        raise NotImplementedError

    def wait(self, until_ns: int) -> None:
        """Nobody is there until then."""
        raise NotImplementedError


class Wall(Clock):
    """Real time, counted from its making."""

    def __init__(self) -> None:
        super().__init__()
        self.origin_ns = time.perf_counter_ns()

    def passed(self, plan: StepPlan) -> int:
        return time.perf_counter_ns() - self.origin_ns

    def wait(self, until_ns: int) -> None:
        left = until_ns - (time.perf_counter_ns() - self.origin_ns)
        if left > 0:
            time.sleep(left / 1e9)


class Virtual(Clock):
    """Steps take as long as a cost model says, whatever the machine does."""

    def __init__(self, cost: StepCost):
        super().__init__()
        self.cost = cost

    def passed(self, plan: StepPlan) -> int:
        return self.start_ns + max(1, self.cost.step_ns(work_of(plan)))

    def wait(self, until_ns: int) -> None:
        return None


def play(engine: Engine, arrivals: Iterable[Arrival], clock: Clock) -> Played:
    """Run a trace to its end on an idle engine. Raises InputError for a request that can never run, and StudioError where
    nothing runs though somebody waits."""
    todo = deque(sorted(arrivals, key=lambda one: one.at_ns))
    known = {one.generation.id: one for one in todo}
    clock.engine, engine.clock = engine, clock
    steps: list[Step] = []
    said: dict[str, list[tuple[int, int]]] = {name: [] for name in known}
    ends: dict[str, Output] = {}
    now = 0
    while todo or not engine.idle:
        if engine.idle:
            clock.wait(todo[0].at_ns)
            now = max(now, todo[0].at_ns)
        clock.begin(now)
        while todo and todo[0].at_ns <= now:
            clock.start_ns = todo[0].at_ns
            engine.add(todo.popleft().generation)
        clock.start_ns = now
        outputs = engine.step()
        if engine.last_plan is clock.before:
            if not todo:
                raise StudioError(f"{len(engine.live)} requests wait and nothing runs")
            clock.wait(todo[0].at_ns)
            now = max(now, todo[0].at_ns)
            continue
        steps.append(noted(engine, clock))
        now = clock.end_ns
        for one in outputs:
            if one.choice is not None:
                said[one.id].append((now, one.choice.token))
            if one.finish is not None:
                ends[one.id] = one
    return Played(steps=tuple(steps), requests=tuple(served(one, said[name], ends[name]) for name, one in known.items()))


def noted(engine: Engine, clock: Clock) -> Step:
    """The step that has just ended."""
    plan, total = engine.last_plan, engine.scheduler.pool.total
    record = step_record(plan, clock.start_ns, clock.end_ns, cached=clock.cached, total=total)
    return Step(record=record, work=work_of(plan), items=plan.items, copies=plan.copies, evicted=plan.evicted,
                preempted=plan.preempted)


def served(one: Arrival, said: list[tuple[int, int]], end: Output) -> Served:
    """What is known of a request at the end."""
    return Served(
        id=one.generation.id, arrival_ns=one.at_ns, first_token_ns=said[0][0] if said else None,
        last_token_ns=said[-1][0] if said else None, tokens=tuple(token for _, token in said),
        cached_tokens=end.usage.cached_tokens, preemptions=end.usage.preemptions, finish=end.finish)
