"""Prefill and decode apart (DistServe, OSDI 2024; Splitwise, ISCA 2024): two kinds of pool, keys and values move between.

A prefill scheduler computes prompts and their first tokens, and never decodes; a decode scheduler takes a sequence over
once its keys and values have arrived. Each has its own pool and steps. The ratio P:D is how many there are of each.

The link is the driver's: `transfers(now)` says what starts to move now, `arrived(transfer, now)` is told when it has.
Each scheduler sends one sequence at a time and receives one at a time, in the order in which prompts were computed; the
others queue, and hold their blocks at the source meanwhile, so that a slow link or a full decode pool stops prefills.
A sequence that the decode pool preempts is recomputed (or swapped) there.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.serving import handover
from pycore.serving.events import Event
from pycore.serving.plan import HeldBack, StepPlan
from pycore.serving.request import Request
from pycore.serving.scheduler import Scheduler
from pycore.serving.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Keys and values of one sequence on their way: `tokens` of them in `blocks` blocks; what the goal had is not sent.

    `source`, `goal`: indices into the fleet's schedulers. `size_bytes` is 0 where no block size in bytes was given.
    """

    sequence_id: str
    source: int
    goal: int
    tokens: int
    blocks: int
    size_bytes: int
    started_ns: int


class Disaggregated:
    """A fleet (see router.py) of prefill schedulers, then decode schedulers.

    Raises InputError when either kind is missing, when a prefill scheduler was not made with `hands_over=True`, or when
    block sizes differ.
    """

    def __init__(self, prefill: Iterable[Scheduler], decode: Iterable[Scheduler]):
        self.prefill, self.decode = tuple(prefill), tuple(decode)
        self.schedulers = self.prefill + self.decode
        if not self.prefill or not self.decode:
            raise InputError("pools", f"{len(self.prefill)}:{len(self.decode)}", "at least one of each kind")
        if not all(s.hands_over for s in self.prefill) or any(s.hands_over for s in self.decode):
            raise InputError("hands_over", "as given", "True for prefill schedulers and False for decode schedulers")
        if len({scheduler.pool.block_size for scheduler in self.schedulers}) > 1:
            raise InputError("block_size", "several", "one block size for all pools")
        self._queue: deque[tuple[int, Sequence]] = deque()  # computed, not yet moving; with the index of the source
        self._moving: dict[str, Transfer] = {}
        self._blocked: str | None = None  # whoever found no room at any decode scheduler

    @property
    def idle(self) -> bool:
        return all(scheduler.idle for scheduler in self.schedulers)

    def add(self, request: Request, now_ns: int | None = None) -> Sequence:
        """To the prefill scheduler with the fewest prompts; refused when no decode scheduler could ever hold it."""
        if any(request.id in scheduler.sequences for scheduler in self.schedulers):
            raise InputError("id", request.id, "an id that no unfinished request has")
        goal = min(self.prefill, key=lambda scheduler: len(scheduler.sequences))
        reasons = [scheduler.impossible(request) for scheduler in self.decode]
        sequence = goal.add(request, now_ns)
        if all(reasons) and not sequence.over:
            goal.end(sequence, "refused", request.arrival_ns if now_ns is None else now_ns, reasons[0])
        return sequence

    def schedule(self, index: int, now_ns: int) -> StepPlan:
        return self.schedulers[index].schedule(now_ns)

    def complete(self, index: int, plan: StepPlan, now_ns: int, tokens: Mapping[str, int] | None = None,
                 stopped: Iterable[str] = ()) -> tuple[Event, ...]:
        """See Scheduler.complete; prompts that are ready queue for the link. Ask `transfers` afterwards."""
        scheduler = self.schedulers[index]
        events = scheduler.complete(plan, now_ns, tokens, stopped)
        for event in events:
            if event.kind == "handed over" and event.sequence_id in scheduler.sequences:
                self._queue.append((index, scheduler.sequences[event.sequence_id]))
        return events

    def transfers(self, now_ns: int) -> tuple[Transfer, ...]:
        """What starts to move now. Who finds no room at a decode scheduler stops all behind it, so nobody starves."""
        started, left = [], deque()
        sources = {transfer.source for transfer in self._moving.values()}
        goals = {transfer.goal for transfer in self._moving.values()}
        self._blocked = None
        while self._queue:
            source, sequence = self._queue.popleft()
            if sequence.over:
                continue
            transfer = None
            if source not in sources and self._blocked is None:
                transfer = self._start(source, sequence, goals, now_ns)
            if transfer is None:
                left.append((source, sequence))
                sources.add(source)  # in order: nobody behind it on this source goes first
            else:
                started.append(transfer)
                sources.add(source)
                goals.add(transfer.goal)
        self._queue = left
        return tuple(started)

    def _start(self, source: int, sequence: Sequence, goals: set[int], now_ns: int) -> Transfer | None:
        room = False
        for goal in sorted(range(len(self.prefill), len(self.schedulers)), key=self._load):
            scheduler = self.schedulers[goal]
            if scheduler.impossible(sequence.request):
                continue
            if goal in goals:
                room = True  # its line is busy; there may be room
                continue
            reserved = handover.reserve(scheduler, sequence)
            if reserved is not None:
                return self._send(source, goal, sequence, reserved, now_ns)
        if not room:
            self._blocked = sequence.id
        return None

    def _load(self, index: int) -> tuple[int, int]:
        scheduler = self.schedulers[index]
        return len(scheduler.sequences) + len(scheduler.arriving), index

    def _send(self, source: int, goal: int, sequence: Sequence, reserved: tuple[int, int], now_ns: int) -> Transfer:
        blocks, cached = reserved
        pool, memory = self.schedulers[source].pool, self.schedulers[source].memory
        transfer = Transfer(sequence_id=sequence.id, source=source, goal=goal, blocks=blocks - cached,
                            tokens=sequence.computed_tokens - cached * pool.block_size,
                            size_bytes=(blocks - cached) * memory.block_bytes, started_ns=now_ns)
        self._moving[sequence.id] = transfer
        return transfer

    def arrived(self, transfer: Transfer, now_ns: int) -> bool:
        """The keys and values are there: decode from the goal's next step on. False when it was aborted meanwhile."""
        if self._moving.get(transfer.sequence_id) is not transfer:
            return False
        del self._moving[transfer.sequence_id]
        source, goal = self.schedulers[transfer.source], self.schedulers[transfer.goal]
        handover.move(source, goal, source.sequences[transfer.sequence_id])
        return True

    def abort(self, sequence_id: str, now_ns: int | None = None) -> bool:
        """Drop a request in whichever pool or on whichever link it is."""
        transfer = self._moving.pop(sequence_id, None)
        if transfer is not None:
            handover.cancel(self.schedulers[transfer.goal], sequence_id)
        return any(scheduler.abort(sequence_id, now_ns) for scheduler in self.schedulers)

    def held_back(self) -> tuple[HeldBack, ...]:
        """Those between the pools: moving, behind another on the link (the blocker), or without room to go to."""
        held = [HeldBack(sequence_id=name, reason="KV in flight") for name in self._moving]
        busy = {transfer.source: name for name, transfer in self._moving.items()}
        for source, sequence in self._queue:
            if sequence.id == self._blocked:
                held.append(HeldBack(sequence_id=sequence.id, reason="no blocks"))
            else:
                held.append(HeldBack(sequence_id=sequence.id, reason="KV in flight",
                                     blocker=busy.get(source, self._blocked)))
        return tuple(held)

    def check(self) -> None:
        """Every pool's check, and that whoever is set aside for is on its way. Raises AssertionError."""
        for scheduler in self.schedulers:
            scheduler.check()
        expected = sorted(name for scheduler in self.decode for name in scheduler.arriving)
        assert expected == sorted(self._moving), "blocks are set aside for somebody who is not on the way"
