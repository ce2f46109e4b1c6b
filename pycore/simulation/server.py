"""One simulated engine: a scheduler, what its steps cost, and the steps in flight."""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import repeat

from pycore.errors import InputError
from pycore.serving.blocks import BlockPool
from pycore.serving.events import Event
from pycore.serving.limits import Limits
from pycore.serving.plan import StepPlan
from pycore.serving.policies.contract import Policy
from pycore.serving.policies.disaggregated import Disaggregated
from pycore.serving.policies.router import Router
from pycore.serving.scheduler import Preemption, Scheduler
from pycore.simulation.costs.work import NANOSECONDS, StepCost, StepWork, decode_ends, work_of
from pycore.simulation.recorder import Entry, Recorder, Timed
from pycore.simulation.records import Server, StepRecord, step_record

FOR_EVER, MOST_AHEAD = 1 << 62, 4096
new_record = partial(tuple.__new__, StepRecord)  # from a tuple of all fields: quiet steps are made by the thousand


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What a server is made of; one Engine may be built many times, and the servers share nothing.

    `blocks` of `block_size` tokens make the KV pool (`null_block`: one of them is never used, as in vLLM). Swapping
    moves blocks of `block_bytes` over `swap_bytes_per_s`, and the step waits for it. Copies between blocks on the card
    are free of charge: they are rare and take a few reads.
    """

    policy: Policy
    limits: Limits
    cost: StepCost
    blocks: int
    block_size: int = 16
    watermark: float = 0.0
    null_block: bool = False
    prefix_caching: bool = True
    preemption: Preemption = "recompute"
    host_blocks: int = 0
    block_bytes: int = 0
    swap_bytes_per_s: float = 0.0
    devices: int = 1

    def __post_init__(self):
        if self.preemption == "swap" and not (self.block_bytes > 0 and 0 < self.swap_bytes_per_s < float("inf")):
            raise InputError("preemption", "swap", "swapping needs the size of a block and the host's bandwidth")

    def scheduler(self, *, hands_over: bool = False) -> Scheduler:
        """A fresh scheduler with an empty pool."""
        pool = BlockPool(self.blocks, self.block_size, watermark=self.watermark, prefix_caching=self.prefix_caching,
                         null_block=self.null_block)
        return Scheduler(self.policy, pool, self.limits, preemption=self.preemption, host_blocks=self.host_blocks,
                         block_bytes=self.block_bytes, hands_over=hands_over)


class Running:
    """A server at work. Up to `limits.steps_in_flight` steps are planned; they run one after another.

    Stretches in which the same sequences decode and nothing else can happen (`Scheduler.quiet_steps`) are timed at once
    and kept in `ahead`; the scheduler is told when they are over, or as far as they came when something interferes.
    """

    __slots__ = ("engine", "number", "name", "role", "scheduler", "recorder", "flight", "ahead", "ahead_ns", "steps",
                 "free_ns", "changed", "border_ns")

    def __init__(self, engine: Engine, number: int, entries: dict[str, Entry], scheduler: Scheduler, *, name: str,
                 role: str = "both"):
        self.engine, self.number, self.name, self.role = engine, number, name, role
        self.scheduler = scheduler
        self.recorder = Recorder(number, entries)
        self.flight: deque[tuple[StepPlan, int]] = deque()  # plan, end
        self.ahead: list[int] = []  # ends of quiet steps that the scheduler has not been told of
        self.ahead_ns = 0  # when the first of them began
        self.steps: list[StepRecord] = []
        self.free_ns = 0  # when the last planned step ends
        self.changed = False  # something happened to it since it last planned
        self.border_ns = -1  # when its last step ended

    @property
    def due_ns(self) -> int | None:
        """When it has something to say next; None of an idle server."""
        if self.ahead:
            return self.ahead[-1]
        return self.flight[0][1] if self.flight else None

    @property
    def idle(self) -> bool:
        return not self.ahead and not self.flight

    def complete(self, fleet: Router | Disaggregated) -> tuple[Event, ...]:
        """What was due is over."""
        self.changed, self.border_ns = True, self.due_ns
        if self.ahead:
            return self.pass_quietly(len(self.ahead))
        plan, end = self.flight.popleft()
        return fleet.complete(self.number, plan, end)

    def plans_at(self, now_ns: int) -> bool:
        """Whether it looks at its queue now: engines do so between steps, not while they wait for one."""
        return self.changed and (self.idle or self.border_ns == now_ns)

    def plan(self, now_ns: int, horizon_ns: int | None) -> list[StepPlan]:
        """Plan as many steps as may be in flight, or a quiet stretch up to the step that reaches `horizon_ns` (None:
        nothing is known to come). Returns the plans, for who was refused in them."""
        made: list[StepPlan] = []
        self.changed = False
        if self.look_ahead(now_ns, horizon_ns):
            return made
        while len(self.flight) < self.engine.limits.steps_in_flight:
            for entry in self.recorder.fresh:
                if entry.queued_ns is None:
                    entry.queued_ns = now_ns
            plan = self.scheduler.schedule(now_ns)
            made.append(plan)
            start = max(now_ns, self.free_ns)
            if plan.empty:
                self.recorder.held(plan, start)
                break
            self.begin(plan, start)
        return made

    def begin(self, plan: StepPlan, start_ns: int, end_ns: int | None = None) -> None:
        """Put a plan on the clock and write it down. `end_ns`: when it ends, where that is known already."""
        end = start_ns + self.length_ns(plan) if end_ns is None else end_ns
        self.recorder.planned(plan, Timed(len(self.steps), start_ns, end))
        self.flight.append((plan, end))
        self.free_ns = end
        pool = self.scheduler.pool
        self.steps.append(step_record(plan, start_ns, end, cached=pool.cached, total=pool.total))

    def length_ns(self, plan: StepPlan) -> int:
        """Nanoseconds of a planned step: its tokens, and the swaps that it waits for."""
        length = 0
        if plan.decode_count or plan.parts:
            length = self.engine.cost.step_ns(work_of(plan))
        if plan.swapped_out or plan.swapped_in:
            length += max(1, round(plan.swap_bytes / self.engine.swap_bytes_per_s * NANOSECONDS))
        return max(1, length)

    # Quiet stretches --------------------------------------------------------------------------------------------

    def look_ahead(self, now_ns: int, horizon_ns: int | None) -> bool:
        """Time a quiet stretch, if one begins now and is longer than a step."""
        quiet = min(self.scheduler.quiet_steps(), MOST_AHEAD)
        if quiet < 2:
            return False
        decodes = self.scheduler.decodes
        work = StepWork(len(decodes), decodes.context, decodes.longest)
        until = FOR_EVER if horizon_ns is None else horizon_ns
        self.ahead_ns, self.ahead = now_ns, decode_ends(self.engine.cost, work, quiet, now_ns, until)
        return bool(self.ahead)

    def interrupt(self, now_ns: int) -> None:
        """Something is about to change this server: bring its scheduler to the present. The step of a quiet stretch that
        is under way becomes a planned one, the rest was never begun."""
        if not self.ahead:
            return
        ahead, begun = self.ahead, self.ahead_ns
        passed = bisect_right(ahead, now_ns)
        if passed:
            self.pass_quietly(passed)
            begun = ahead[passed - 1]
        self.ahead, self.changed = [], True
        if begun < now_ns:
            self.begin(self.scheduler.schedule_quiet(), begun, ahead[passed])

    def pass_quietly(self, count: int) -> tuple[Event, ...]:
        """Tell the scheduler of the first `count` quiet steps, and write them down."""
        ends, scheduler = self.ahead[:count], self.scheduler
        self.ahead = self.ahead[count:] if count < len(self.ahead) else []
        self.recorder.quiet(scheduler.decodes.snapshot(), Timed(len(self.steps), self.ahead_ns, ends[-1]), count)
        decoding, running, waiting = len(scheduler.decodes), len(scheduler.running), len(scheduler.queue)
        total, quiet = scheduler.pool.total, scheduler.advance(ends)
        free = [total - used - cached for used, cached in zip(quiet.blocks_used, quiet.blocks_cached, strict=True)]
        self.steps += map(new_record, zip(
            [self.ahead_ns, *ends[:-1]], ends, repeat(0, count), repeat(0), repeat(decoding), repeat(decoding),
            repeat(running), repeat(waiting), quiet.blocks_used, quiet.blocks_cached, free, repeat(0), quiet.evicted,
            strict=False))
        self.ahead_ns = self.free_ns = ends[-1]
        return quiet.events

    def record(self) -> Server:
        """What the server did."""
        return Server(name=self.name, role=self.role, devices=self.engine.devices, blocks=self.scheduler.pool.total,
                      block_size=self.engine.block_size, steps=tuple(self.steps))
