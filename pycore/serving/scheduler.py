"""The scheduler: lifecycle of sequences around a policy. It has no clock: the driver says when a step starts and ends."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Literal

from pycore.errors import InputError
from pycore.serving import accounts, ahead, completion, forks, quiet
from pycore.serving.blocks import BlockPool, Census
from pycore.serving.decodes import DecodeSet
from pycore.serving.events import Event
from pycore.serving.limits import Limits
from pycore.serving.memory import Memory
from pycore.serving.plan import Reason, StepPlan, Swap
from pycore.serving.policies.contract import Policy
from pycore.serving.request import Request
from pycore.serving.sequence import Sequence
from pycore.serving.step import Step
from pycore.serving.waiting import WaitingQueue

Preemption = Literal["recompute", "swap"]
Tokens = tuple[int, ...]


class Scheduler:
    """One engine's scheduler: seats, queue and blocks of one pool. Two of them share nothing.

    preemption   what happens to a running sequence when blocks run out. "recompute": its blocks are freed, its generated
                 tokens kept, and prompt + generated are computed again (minus what is still cached). "swap": its blocks
                 go to `host_blocks` blocks of host memory and come back; when the host is full, recompute
    block_bytes  size of one block, so that plans can say how many bytes a swap moves
    hands_over   True for a prefill pool: a sequence leaves after its first token (see policies/disaggregated.py)

    Steps must complete in the order in which they were scheduled; up to `limits.steps_in_flight` may be open.
    """

    def __init__(self, policy: Policy, pool: BlockPool, limits: Limits, *, preemption: Preemption = "recompute",
                 host_blocks: int = 0, block_bytes: int = 0, hands_over: bool = False):
        if preemption not in ("recompute", "swap"):
            raise InputError("preemption", preemption, "recompute or swap")
        if preemption == "swap" and host_blocks < 1:
            raise InputError("host_blocks", host_blocks, "at least 1 for preemption by swap")
        if hands_over and limits.draft_tokens:
            raise InputError("draft_tokens", limits.draft_tokens, "0 for a pool that hands its sequences over")
        self.policy, self.pool, self.limits, self.hands_over = policy, pool, limits, hands_over
        self.decodes = DecodeSet(pool.block_size)
        self.memory = Memory(pool, self.decodes, host_blocks=host_blocks if preemption == "swap" else 0,
                             block_bytes=block_bytes)
        self.sequences: dict[str, Sequence] = {}  # all that are not over, by id
        self.queue = WaitingQueue()
        self.running: dict[int, Sequence] = {}  # by serial number, oldest admission first; the next two are part of it
        self.prefilling: dict[int, Sequence] = {}
        self.speculating: dict[int, Sequence] = {}  # those who decode, where limits allow guesses; part of `running`
        self.draining: dict[int, Sequence] = {}  # last token scheduled, not out yet
        self.handing: dict[int, Sequence] = {}  # computed here, on their way to another pool
        self.arriving: dict[str, list[int]] = {}  # blocks and a seat set aside for those on their way here, by id
        self.steps = self.admissions = 0
        self.asked_tokens = self.hit_tokens = 0  # prompt tokens admitted, and those of them found in the prefix cache
        self.in_flight: deque[StepPlan] = deque()
        self.late: dict[int, list[Sequence]] = {}  # by step in flight: who left the decode set after taking part in it
        self.steady = False  # the last step only advanced decodes and nothing has changed since (quiet.py)
        self.stop: tuple[Reason, str | None] | None = None  # why the last step let nobody else in, and at whom
        self._serials = 0

    # Requests -------------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> tuple[Sequence, ...]:
        """Those without a seat (swapped ones among them), in the policy's order."""
        return self.queue.snapshot()

    @property
    def idle(self) -> bool:
        """Nothing to schedule, nothing in flight, nobody on the way."""
        return not self.sequences and not self.in_flight and not self.arriving

    @property
    def seats(self) -> int:
        """Free seats."""
        return self.limits.max_sequences - len(self.running) - len(self.arriving)

    @property
    def reach(self) -> int:
        """Tokens of the longest text that can run here, prompt and output: the model's length, or what the whole pool holds
        and a last token, which comes out and is never computed."""
        return min(self.limits.max_model_length, self.pool.total * self.pool.block_size + 1)

    @property
    def unread_tokens(self) -> int:
        """Tokens of prompts (and of what preempted ones must read again) that have still to run through the model; what
        of them is cached is not known before they are admitted. O(prompts under way)."""
        return self.queue.tokens + sum([sequence.known - sequence.computed_tokens for sequence in self.prefilling.values()])

    def add(self, request: Request, now_ns: int | None = None) -> Sequence:
        """Let a request wait, or refuse it: the sequence's `status` says which, its `reason` why.

        Refused is what could never run: a prompt that fills the model's length, or prompt and output that exceed the
        whole pool (an engine refuses to start with such a pool). Raises InputError for an id in use.
        """
        if request.id in self.sequences:
            raise InputError("id", request.id, "an id that no unfinished request has")
        target = min(request.output_tokens, self.limits.max_model_length - request.prompt_tokens)
        sequence = Sequence(request, self.next_serial(), self.decodes, target)
        reason = self.impossible(request)
        if reason:
            sequence.status, sequence.reason = "refused", reason
            sequence.finished_ns = request.arrival_ns if now_ns is None else now_ns
            return sequence
        self.sequences[request.id] = sequence
        self.wait(sequence)
        return sequence

    def impossible(self, request: Request) -> str:
        """Why a request can never run here; '' when it can."""
        prompt, length = request.prompt_tokens, self.limits.max_model_length
        if prompt >= length:
            return f"prompt of {prompt} tokens leaves no room in the model's {length}"
        reach = prompt if self.hands_over else min(prompt + request.output_tokens, length) - 1
        need = self.pool.blocks_for(reach)
        if need > self.pool.total:
            return f"prompt and output need {need} KV blocks, the pool has {self.pool.total}"
        return ""

    def abort(self, sequence_id: str, now_ns: int | None = None) -> bool:
        """Drop a request wherever it is; its blocks are free at once. False when no such request is unfinished."""
        sequence = self.sequences.get(sequence_id)
        if sequence is None:
            return False
        self.end(sequence, "aborted", now_ns, "aborted")
        return True

    def fork(self, sequence_id: str, new_id: str, last_token: int | None = None) -> Sequence:
        """A second sequence with the same tokens so far, sharing every block; the first write into one copies it.

        `last_token`: its last token is another one, so that samples of one prompt can part at the first token.
        Takes a seat at once; without a free seat it waits, and computes its tokens again (minus what is cached).
        Raises InputError for an unknown id, an id in use, or while a step is in flight.
        """
        return forks.fork(self, sequence_id, new_id, last_token)

    # Steps ----------------------------------------------------------------------------------------------------------

    def schedule(self, now_ns: int, drafts: Mapping[str, int] | None = None) -> StepPlan:
        """Decide the next step. An empty plan (`plan.empty`) has nothing to run and is not to be completed.

        `drafts`: how many guesses there are for a sequence, by id, where that is known (none for those left out); None:
        as many as the limits allow. Raises ValueError when more steps would be in flight than the limits allow.
        """
        if len(self.in_flight) >= self.limits.steps_in_flight:
            raise ValueError(f"{len(self.in_flight)} steps are in flight already: complete one first")
        step = Step(self, now_ns)
        step.compose()
        if self.limits.draft_tokens:
            ahead.guess(step, drafts)
        plan = step.plan()
        for sequence in step.joining:
            self.join(sequence)
        if plan.empty:
            return plan
        self.open(plan)
        self.steady, self.stop = quiet.steady(self, step), step.stop
        return plan

    def schedule_quiet(self) -> StepPlan:
        """The next step as `schedule` would plan it, at less cost. Raises ValueError where `quiet_steps()` is 0."""
        return quiet.schedule_quiet(self)

    def open(self, plan: StepPlan) -> None:
        """A plan is under way; whose last token it computes leaves the decode set."""
        self.steps += 1
        self.in_flight.append(plan)
        for sequence in plan.finishing:
            if sequence.slot is not None:
                self.leave_decodes(sequence)
            self.speculating.pop(sequence.serial, None)
            self.draining[sequence.serial] = sequence

    def complete(self, plan: StepPlan, now_ns: int, tokens: Mapping[str, int | Tokens] | None = None,
                 stopped: Iterable[str] = (), *, accepted: Mapping[str, int] | None = None,
                 branches: Mapping[str, Mapping[str, int]] | None = None) -> tuple[Event, ...]:
        """Take the result of the oldest step in flight.

        `tokens`: the token each emitting sequence produced, by id, where tokens exist (a simulator has none); of one with
        guesses the tokens, those accepted and one more. `accepted`: how many guesses were accepted, by id, where no
        tokens exist; none of those left out. A sequence that stops among its accepted guesses is given none after that.
        `stopped`: ids whose token just produced is their last, whatever their budget. `branches`: forks to make before
        anybody ends, parent id -> new id -> the token that the fork has in place of the parent's, so that several samples
        of a prompt part at a token even where the parent ends with it. Raises ValueError for a plan out of turn, for
        a missing token and for more than guesses can give, InputError for a branch that `fork` would refuse.
        """
        return completion.complete(self, plan, now_ns, tokens, stopped, accepted or {}, branches or {})

    def quiet_steps(self) -> int:
        """How many steps from now on will advance the same decodes and nothing else; 0 when that is not certain.

        The last of them may finish sequences. Holds while nothing is added, aborted or forked. Their counts:
        `len(decodes)` sequences, `decodes.context` tokens of context in the first, `len(decodes)` more in each next.
        """
        return quiet.quiet_steps(self)

    def advance(self, ends_ns: Iterable[int]) -> quiet.QuietRun:
        """Schedule and complete as many quiet steps as there are end times, at a fraction of the cost.

        The state afterwards equals that of single steps. Raises ValueError for more steps than `quiet_steps()`.
        """
        return quiet.advance(self, tuple(ends_ns))

    # What steps do to sequences -------------------------------------------------------------------------------------

    def next_serial(self) -> int:
        self._serials += 1
        return self._serials

    def wait(self, sequence: Sequence) -> None:
        """Put a sequence into the queue."""
        self.queue.enter(sequence, self.policy.key(sequence))
        self.steady = False

    def seat(self, sequence: Sequence, now_ns: int, cached: int | None) -> None:
        """Move a sequence from the queue to a seat; `cached` tokens were hit (None: it was swapped in)."""
        self.queue.leave(sequence)
        self.take_seat(sequence)
        if sequence.first_scheduled_ns is None:
            sequence.first_scheduled_ns, sequence.cached_tokens = now_ns, cached
            self.asked_tokens += sequence.prompt_tokens
            self.hit_tokens += cached
        elif cached is not None:
            sequence.resumed_tokens += cached
            beyond = max(0, cached - sequence.peak_computed)  # others filled the cache past where it had come
            sequence.cached_tokens += beyond
            self.hit_tokens += beyond

    def take_seat(self, sequence: Sequence) -> None:
        self.admissions += 1
        sequence.admission, sequence.status = self.admissions, "running"
        self.running[sequence.serial] = sequence
        self.steady = False

    def join(self, sequence: Sequence) -> None:
        """Let a sequence decode from the next step on."""
        if self.limits.draft_tokens:
            self.speculating[sequence.serial] = sequence
        else:
            self.decodes.join(sequence)

    def leave_decodes(self, sequence: Sequence) -> None:
        """Take a sequence out of the decode set; tokens of steps in flight are counted when those complete."""
        slot = sequence.slot
        self.decodes.leave(slot)
        for plan in self.in_flight:
            if plan.tick >= slot.first_tick:
                self.late.setdefault(plan.step, []).append(sequence)

    def unseat(self, sequence: Sequence) -> Swap | None:
        """Preempt: back to the queue, blocks to the host (then the copy is returned) or to the pool."""
        if sequence.slot is not None:
            self.leave_decodes(sequence)
        self.prefilling.pop(sequence.serial, None)
        self.speculating.pop(sequence.serial, None)
        del self.running[sequence.serial]
        sequence.preemptions += 1
        sequence.peak_computed = max(sequence.peak_computed, sequence.computed_tokens)
        swap = self.memory.swap_out(sequence)
        sequence.status = "waiting" if swap is None else "swapped"
        if swap is None:
            self.memory.release(sequence, private=True)
            sequence.computed_tokens = 0
        self.wait(sequence)
        return swap

    def end(self, sequence: Sequence, status: Literal["finished", "refused", "aborted"], now_ns: int | None,
            reason: str) -> Event:
        """Take a sequence out wherever it is, its blocks back to the pool."""
        if sequence.status in ("waiting", "swapped"):
            self.queue.leave(sequence)
        if sequence.slot is not None:
            self.decodes.leave(sequence.slot)
        sequence.drop_emissions_in_flight()
        for group in (self.running, self.prefilling, self.speculating, self.draining, self.handing):
            group.pop(sequence.serial, None)
        self.memory.release(sequence)
        self.memory.drop_host(sequence)
        del self.sequences[sequence.id]
        sequence.status, sequence.reason, sequence.finished_ns = status, reason, now_ns
        self.steady = False
        return Event(kind=status, sequence_id=sequence.id, at_ns=now_ns or 0, reason=reason)

    # Checks ---------------------------------------------------------------------------------------------------------

    def check(self) -> Census:
        """Prove that every block, seat and token is accounted for. Raises AssertionError; returns the pool's census."""
        return accounts.check(self)
