"""The scheduler: lifecycle of sequences around a policy. It has no clock: the driver says when a step starts and ends."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from pycore.errors import InputError
from pycore.serving.blocks import BlockPool, Census
from pycore.serving.decodes import DecodeSet
from pycore.serving.events import Event
from pycore.serving.limits import Limits
from pycore.serving.memory import Memory
from pycore.serving.plan import StepPlan, Swap
from pycore.serving.policies.contract import Policy
from pycore.serving.request import Request
from pycore.serving.sequence import Sequence
from pycore.serving.step import Step
from pycore.serving.waiting import WaitingQueue

Preemption = Literal["recompute", "swap"]


class Scheduler:
    """One engine's scheduler: seats, queue and blocks of one pool. Two of them share nothing.

    preemption   what happens to a running sequence when blocks run out. "recompute": its blocks are freed, its generated
                 tokens kept, and prompt + generated are computed again (minus what is still cached). "swap": its blocks
                 go to `host_blocks` blocks of host memory and come back; when the host is full, recompute
    block_bytes  size of one block, so that plans can say how many bytes a swap moves
    hands_over   True for a prefill pool: a sequence leaves after its first token (see disaggregated.py)

    Steps must complete in the order in which they were scheduled; up to `limits.steps_in_flight` may be open.
    """

    def __init__(self, policy: Policy, pool: BlockPool, limits: Limits, *, preemption: Preemption = "recompute",
                 host_blocks: int = 0, block_bytes: int = 0, hands_over: bool = False):
        if preemption not in ("recompute", "swap"):
            raise InputError("preemption", preemption, "recompute or swap")
        if preemption == "swap" and host_blocks < 1:
            raise InputError("host_blocks", host_blocks, "at least 1 for preemption by swap")
        self.policy, self.pool, self.limits, self.hands_over = policy, pool, limits, hands_over
        self.decodes = DecodeSet(pool.block_size)
        self.memory = Memory(pool, self.decodes, host_blocks=host_blocks if preemption == "swap" else 0,
                             block_bytes=block_bytes)
        self.sequences: dict[str, Sequence] = {}  # all that are not over, by id
        self.queue = WaitingQueue()
        self.running: dict[int, Sequence] = {}  # by serial number, oldest admission first; the next three are part of it
        self.prefilling: dict[int, Sequence] = {}
        self.draining: dict[int, Sequence] = {}  # last token scheduled, not out yet
        self.handing: dict[int, Sequence] = {}  # computed here, on their way to another pool
        self.steps = self.serials = self.admissions = 0
        self.asked_tokens = self.hit_tokens = 0  # prompt tokens admitted, and those of them found in the prefix cache
        self._in_flight: deque[StepPlan] = deque()
        self._late: dict[int, list[Sequence]] = {}  # by step in flight: those that left the decode set after it

    # Requests -------------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> tuple[Sequence, ...]:
        """Those without a seat (swapped ones among them), in the policy's order."""
        return self.queue.snapshot()

    @property
    def idle(self) -> bool:
        """Nothing to schedule and nothing in flight."""
        return not self.sequences and not self._in_flight

    def add(self, request: Request, now_ns: int | None = None) -> Sequence:
        """Let a request wait, or refuse it: the sequence's `status` says which, its `reason` why.

        Refused is what could never run: a prompt that fills the model's length, or prompt and output that exceed the
        whole pool (an engine refuses to start with such a pool). Raises InputError for an id in use.
        """
        if request.id in self.sequences:
            raise InputError("id", request.id, "an id that no unfinished request has")
        target = min(request.output_tokens, self.limits.max_model_length - request.prompt_tokens)
        sequence = Sequence(request, self._serial(), self.decodes, target)
        reason = self._impossible(request, target)
        if reason:
            sequence.status, sequence.reason = "refused", reason
            sequence.finished_ns = request.arrival_ns if now_ns is None else now_ns
            return sequence
        self.sequences[request.id] = sequence
        self.queue.enter(sequence, self.policy.key(sequence))
        return sequence

    def _impossible(self, request: Request, target: int) -> str:
        prompt, length = request.prompt_tokens, self.limits.max_model_length
        if target < 1:
            return f"prompt of {prompt} tokens leaves no room in the model's {length}"
        need = self.pool.blocks_for(prompt + (1 if self.hands_over else target) - 1)
        if need > self.pool.total:
            return f"prompt and output need {need} KV blocks, the pool has {self.pool.total}"
        return ""

    def _serial(self) -> int:
        self.serials += 1
        return self.serials

    def abort(self, sequence_id: str, now_ns: int | None = None) -> bool:
        """Drop a request wherever it is; its blocks are free at once. False when no such request is unfinished."""
        sequence = self.sequences.get(sequence_id)
        if sequence is None:
            return False
        self._end(sequence, "aborted", now_ns, "aborted")
        return True

    def fork(self, sequence_id: str, new_id: str) -> Sequence:
        """A second sequence with the same tokens so far, sharing every block; the first write into one copies it.

        Takes a seat at once; without a free seat it waits, and computes its tokens again (minus what is cached).
        Raises InputError for an unknown id, an id in use, or while a step is in flight.
        """
        parent = self.sequences.get(sequence_id)
        if parent is None or self._in_flight or parent.status == "handing over":
            raise InputError("sequence_id", sequence_id, "an unfinished sequence, between two steps")
        if new_id in self.sequences:
            raise InputError("new_id", new_id, "an id that no unfinished request has")
        child = Sequence(replace(parent.request, id=new_id), self._serial(), self.decodes, parent.target)
        child.tokens, child.issued_tokens, child.generated_tokens = list(parent.tokens), parent.issued, parent.generated
        child.emissions, child.first_token_ns = list(parent.token_times_ns()), parent.first_token_ns
        child.cached_tokens, child.first_scheduled_ns = parent.cached_tokens, parent.first_scheduled_ns
        self.sequences[new_id] = child
        if parent.status != "running" or len(self.running) >= self.limits.max_sequences:
            self.queue.enter(child, self.policy.key(child))
            return child
        self._share_blocks(parent, child)
        return child

    def _share_blocks(self, parent: Sequence, child: Sequence) -> None:
        child.computed_tokens, child.registered = parent.computed, parent.registered
        child.peak_computed = parent.peak_computed
        full = parent.computed // self.pool.block_size
        if full:
            parent.key(full - 1, self.pool.block_size)
        child.keys = parent.keys[:full]
        child.block_table = list(parent.block_table)
        for block in child.block_table:
            self.pool.hold(block)
        self._enter(child)
        self.memory.forked[parent.serial], self.memory.forked[child.serial] = parent, child
        if parent.slot is None:
            self.prefilling[child.serial] = child
        else:
            self.decodes.join(child)

    # Steps ----------------------------------------------------------------------------------------------------------

    def schedule(self, now_ns: int) -> StepPlan:
        """Decide the next step. An empty plan (`plan.empty`) has nothing to run and is not to be completed.

        Raises ValueError when more steps would be in flight than the limits allow.
        """
        if len(self._in_flight) >= self.limits.steps_in_flight:
            raise ValueError(f"{len(self._in_flight)} steps are in flight already: complete one first")
        step = Step(self, now_ns)
        self.policy.compose(step)
        plan = step.plan()
        if not plan.empty:
            self.steps += 1
            self._in_flight.append(plan)
            for sequence in plan.finishing:
                if sequence.slot is not None:
                    self.leave_decodes(sequence)
                self.draining[sequence.serial] = sequence
        return plan

    def complete(self, plan: StepPlan, now_ns: int, tokens: Mapping[str, int] | None = None,
                 stopped: Iterable[str] = ()) -> tuple[Event, ...]:
        """Take the result of the oldest step in flight.

        `tokens`: the token each emitting sequence produced, by id, where tokens exist (a simulator has none).
        `stopped`: ids whose token just produced is their last, whatever their budget. Raises ValueError for a plan out
        of turn and for a missing token.
        """
        if not self._in_flight or plan is not self._in_flight[0]:
            raise ValueError("steps complete in the order in which they were scheduled")
        self._in_flight.popleft()
        if plan.tick >= 0:
            self.decodes.done_tick = plan.tick + 1
            self.decodes.tick_ends_ns.append(now_ns)
        for sequence in self._late.pop(plan.step, ()) if self._late else ():
            if not sequence.over:
                sequence.generated_tokens += 1
        events: list[Event] = []
        if plan.parts:
            self._complete_parts(plan, now_ns, events)
        if tokens is not None:
            _take_tokens(plan, tokens)
        for sequence in plan.finishing:
            if not sequence.over:
                events.append(self._end(sequence, "finished", now_ns, "length"))
        for sequence_id in stopped:
            if sequence_id in self.sequences:
                events.append(self._end(self.sequences[sequence_id], "finished", now_ns, "stop"))
        return tuple(events)

    def _complete_parts(self, plan: StepPlan, now_ns: int, events: list[Event]) -> None:
        for part in plan.parts:
            sequence, reached = part.sequence, part.start + part.count
            if sequence.over:
                continue
            if sequence.shareable and sequence.status == "running" and sequence.computed >= reached:
                self.memory.register(sequence, reached)
            if not part.emits:
                continue
            sequence.generated_tokens += 1
            sequence.emissions.append(now_ns)
            if sequence.first_token_ns is None:
                sequence.first_token_ns = now_ns
                events.append(Event(kind="first token", sequence_id=sequence.id, at_ns=now_ns))
            if sequence.status == "handing over":
                self.running.pop(sequence.serial, None)
                self.handing[sequence.serial] = sequence
                events.append(Event(kind="handed over", sequence_id=sequence.id, at_ns=now_ns))

    # What a step does to sequences ----------------------------------------------------------------------------------

    def seat(self, sequence: Sequence, now_ns: int, cached: int | None) -> None:
        """Move a sequence from the queue to the running ones; `cached` tokens were hit (None: it was swapped in)."""
        self.queue.leave(sequence)
        self._enter(sequence)
        if sequence.first_scheduled_ns is None:
            sequence.first_scheduled_ns, sequence.cached_tokens = now_ns, cached
            self.asked_tokens += sequence.prompt_tokens
            self.hit_tokens += cached
        elif cached is not None:
            sequence.resumed_tokens += cached

    def _enter(self, sequence: Sequence) -> None:
        self.admissions += 1
        sequence.admission, sequence.status = self.admissions, "running"
        self.running[sequence.serial] = sequence

    def leave_decodes(self, sequence: Sequence) -> None:
        """Take a sequence out of the decode set; tokens of steps in flight are counted when those complete."""
        slot = sequence.slot
        self.decodes.leave(slot)
        for plan in self._in_flight:
            if plan.tick >= slot.first_tick:
                self._late.setdefault(plan.step, []).append(sequence)

    def unseat(self, sequence: Sequence) -> Swap | None:
        """Preempt: back to the queue, blocks to the host (then the copy is returned) or to the pool."""
        if sequence.slot is not None:
            self.leave_decodes(sequence)
        self.prefilling.pop(sequence.serial, None)
        del self.running[sequence.serial]
        sequence.preemptions += 1
        sequence.peak_computed = max(sequence.peak_computed, sequence.computed_tokens)
        swap = self.memory.swap_out(sequence)
        sequence.status = "waiting" if swap is None else "swapped"
        if swap is None:
            self.memory.release(sequence, private=True)
            sequence.computed_tokens = 0
        self.queue.enter(sequence, self.policy.key(sequence))
        return swap

    def give_up(self, sequence: Sequence, reason: str, now_ns: int) -> None:
        """Refuse a sequence that waits."""
        self._end(sequence, "refused", now_ns, reason)

    def _end(self, sequence: Sequence, status: Literal["finished", "refused", "aborted"], now_ns: int | None,
             reason: str) -> Event:
        if sequence.status in ("waiting", "swapped"):
            self.queue.leave(sequence)
        if sequence.slot is not None:
            self.decodes.leave(sequence.slot)
        if sequence.emissions and isinstance(sequence.emissions[-1], tuple):  # steps in flight no longer count
            first, last = sequence.emissions[-1]
            sequence.emissions[-1] = (first, max(first, min(last, self.decodes.done_tick)))
        for group in (self.running, self.prefilling, self.draining, self.handing):
            group.pop(sequence.serial, None)
        self.memory.release(sequence)
        self.memory.drop_host(sequence)
        del self.sequences[sequence.id]
        sequence.status, sequence.reason = status, reason
        sequence.finished_ns = now_ns
        return Event(kind=status, sequence_id=sequence.id, at_ns=now_ns or 0, reason=reason)

    # Checks ---------------------------------------------------------------------------------------------------------

    def check(self) -> Census:
        """Prove that every block, seat and token is accounted for. Raises AssertionError; returns the pool's census."""
        live = self.sequences.values()
        census = self.pool.check(sequence.block_table for sequence in live)
        for sequence in live:
            seated = sequence.serial in self.running or sequence.serial in self.handing
            assert seated == bool(sequence.block_table), f"{sequence.id} is {sequence.status} with blocks {seated}"
            assert len(sequence.block_table) == (self.pool.blocks_for(sequence.computed) if seated else 0), sequence.id
            assert sequence.generated <= sequence.issued <= sequence.target, f"{sequence.id} counts its tokens wrong"
        assert len(self.queue) + len(self.running) + len(self.handing) == len(self.sequences), "a sequence is nowhere"
        if self.memory.host is not None:
            self.memory.host.check(sequence.host_table for sequence in live)
        return census


def _take_tokens(plan: StepPlan, tokens: Mapping[str, int]) -> None:
    emitting = [slot.sequence for slot in plan.decodes] + [part.sequence for part in plan.parts if part.emits]
    for sequence in emitting:
        if sequence.over:
            continue
        if sequence.id not in tokens:
            raise ValueError(f"no token for {sequence.id}, which this step produced one for")
        sequence.tokens.append(tokens[sequence.id])
