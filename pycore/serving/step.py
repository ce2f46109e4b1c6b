"""One step in the making: the verbs a policy composes it with. The mechanics are here, the choices are the policy's.

    step.limit(tokens)           lower the tokens this step may spend
    step.decode()                one token for everyone who decodes
    step.continue_prefills()     the next chunk of prompts begun earlier
    step.admit(sequence)         let one in: prefix hits, blocks, first chunk (or its swap back in)
    step.admit_in_order()        the same for all who wait, in order, until one does not fit
    step.preempt(sequence)       take blocks and seat away
    step.refuse(sequence, why)   give up on it

Whatever runs out is remembered with the sequence that took it, so that the plan can say why each of the others waited.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pycore.serving import ahead
from pycore.serving.decodes import Slot
from pycore.serving.held import holds
from pycore.serving.plan import Part, Reason, StepPlan, Swap
from pycore.serving.sequence import Sequence
from pycore.serving.shortage import extend, grow_decodes, unshare_decodes

if TYPE_CHECKING:
    from pycore.serving.scheduler import Scheduler


class Step:
    """The step being composed. `room` is how many tokens it may still spend; `now_ns` when it was asked for."""

    # What most steps leave empty starts as shared, immutable defaults: a step is made hundreds of thousands of times.
    tick, context, longest, prefill_tokens = -1, 0, 0, 0
    decodes: tuple[Slot, ...] = ()
    parts: tuple[Part, ...] = ()
    finishing: tuple[Sequence, ...] = ()  # those whose last token this step computes
    joining: tuple[Sequence, ...] = ()  # those who decode from the next step on
    held: tuple[Sequence, ...] = ()  # members of the decode set for whom there was no room
    copies: tuple[tuple[int, int], ...] = ()
    preempted: tuple[Sequence, ...] = ()
    refused: tuple[Sequence, ...] = ()
    swapped_out: tuple[Swap, ...] = ()
    swapped_in: tuple[Swap, ...] = ()
    stop: tuple[Reason, str | None] | None = None  # why admission ended, and at whom
    biggest: Part | None = None  # the longest prompt chunk
    short = False  # a running sequence found no block
    decoded = False  # those who decode ahead have had their next token

    def __init__(self, scheduler: "Scheduler", now_ns: int):
        self.scheduler, self.now_ns = scheduler, now_ns
        self.memory, self.pool, self.limits = scheduler.memory, scheduler.pool, scheduler.limits
        self.room = scheduler.limits.max_batched_tokens
        self.pinned: set[int] = set()  # those for whom blocks are copied or swapped in: not to be swapped out as well

    # What a policy asks ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> tuple[Sequence, ...]:
        """Those who wait, in the policy's order."""
        return self.scheduler.queue.snapshot()

    @property
    def head(self) -> Sequence | None:
        """The first of those who wait; None when nobody does."""
        return self.scheduler.queue.head

    @property
    def may_admit(self) -> bool:
        """A token, a seat and somebody to take them; never in a step that ran out of blocks for its own (as in vLLM)."""
        scheduler = self.scheduler
        if not scheduler.queue:
            return False
        if self.short:
            pass  # `stop` says for whom
        elif scheduler.seats <= 0:
            self.stop = ("batch full", None)
        elif self.room <= 0:
            self.stop = self.spent()
        else:
            return True
        return False

    def limit(self, tokens: int) -> None:
        """Let the step spend at most so many tokens."""
        if tokens < self.room:
            self.room = tokens

    def spent(self) -> tuple[Reason, str | None]:
        """Who spent the tokens: the longest prompt in the step, or decodes."""
        return ("behind prefill", self.biggest.sequence_id) if self.biggest else ("token budget", None)

    # Decodes --------------------------------------------------------------------------------------------------------

    def decode(self) -> None:
        """One token for every member of the decode set that the room allows; who finds no block is preempted."""
        if self.limits.draft_tokens:
            ahead.decode(self)
            return
        decodes = self.scheduler.decodes
        members = decodes.members
        if not members or self.tick >= 0:
            return
        if len(members) > self.room:
            self._hold(tuple(members.values())[self.room:])
        if self.memory.forked:
            unshare_decodes(self)
        border = decodes.at_border()
        if border:
            grow_decodes(self, border)
        if members:
            self.decodes = decodes.snapshot()
            self.context, self.longest = self.context + decodes.context, max(self.longest, decodes.longest)
            self.tick, self.room = decodes.tick, self.room - len(members)
            finishing = decodes.advance()
            if finishing:
                self.finishing += tuple(slot.sequence for slot in finishing)
        if self.held:
            self.joining += self.held

    def _hold(self, slots: tuple[Slot, ...]) -> None:
        for slot in slots:
            self.scheduler.leave_decodes(slot.sequence)
        self.held = tuple(slot.sequence for slot in slots)

    # Prompts --------------------------------------------------------------------------------------------------------

    def continue_prefills(self) -> None:
        """The next chunk of every prompt that was begun, oldest admission first, as far as the room goes."""
        prefilling = self.scheduler.prefilling
        for sequence in tuple(prefilling.values()) if prefilling else ():
            if self.room <= 0:
                break
            if sequence.serial not in prefilling or sequence.serial in self.pinned:
                continue  # preempted for one before it, or only just swapped in
            count = min(sequence.known - sequence.computed_tokens, self.room)
            need = self.pool.blocks_for(sequence.computed_tokens + count) - len(sequence.block_table)
            if extend(self, sequence, need):
                self.memory.forked.pop(sequence.serial, None)
                self._compute(sequence, count)

    def admit_in_order(self, order: Iterable[Sequence] | None = None, *, whole: bool = False) -> None:
        """Admit those who wait, in the policy's order or the one given, until one does not fit: nobody overtakes."""
        queue = self.scheduler.queue
        if order is None:
            while queue and self.admit(queue.head, whole=whole):
                pass
            return
        for sequence in order:
            if not self.admit(sequence, whole=whole):
                return

    def admit(self, sequence: Sequence, *, whole: bool = False) -> bool:
        """Let a waiting sequence in. False when it does not fit now; the plan says why.

        `whole`: its prompt must fit this step uncut, unless it is the step's only one (a prompt above the limit of a
        step has to be cut by any policy).
        """
        if not self.may_admit:
            return False
        if sequence.status == "swapped":
            return self._swap_in(sequence)
        known, hits = sequence.known, self.memory.hits(sequence)
        cached = len(hits) * self.pool.block_size
        count = min(known - cached, self.room)
        if whole and count < known - cached and (self.parts or self.tick >= 0):
            return self._fails(*self.spent())
        if not self._has_blocks(known if self.limits.reserve_known else cached + count, hits):
            return self._fails("no blocks", sequence.id)
        self.memory.start(sequence, hits, cached + count)
        self.scheduler.seat(sequence, self.now_ns, cached)
        self._compute(sequence, count)
        return True

    def _swap_in(self, sequence: Sequence) -> bool:
        if not self._has_blocks(sequence.known, []):
            return self._fails("no blocks", sequence.id)
        self.swapped_in += (self.memory.swap_in(sequence),)
        self.pinned.add(sequence.serial)
        self.scheduler.seat(sequence, self.now_ns, None)
        if sequence.issued_tokens and sequence.computed_tokens == sequence.known - 1:
            self.joining += (sequence,)
        else:
            self.scheduler.prefilling[sequence.serial] = sequence
        return True

    def _compute(self, sequence: Sequence, count: int) -> None:
        """Enter `count` tokens of it into the step; at the end of what is known of it, a token comes out."""
        start, known = sequence.computed_tokens, sequence.known
        single = count == 1 and start >= sequence.request.prompt_tokens
        part = Part(sequence, start, count, decode=single, emits=start + count == known)
        self.parts += (part,)
        self.room -= count
        sequence.advance(count)
        if single:
            self.context, self.longest = self.context + start + 1, max(self.longest, start + 1)
        else:
            self.prefill_tokens += count
            if self.biggest is None or count > self.biggest.count:
                self.biggest = part
        if part.emits:
            self._emit(sequence)
        else:
            self.scheduler.prefilling[sequence.serial] = sequence

    def _emit(self, sequence: Sequence) -> None:
        self.scheduler.prefilling.pop(sequence.serial, None)
        sequence.issued_tokens += 1
        if sequence.issued_tokens == sequence.target:
            self.finishing += (sequence,)
        elif self.scheduler.hands_over:
            sequence.status = "handing over"
        else:
            self.joining += (sequence,)

    # Blocks and seats -----------------------------------------------------------------------------------------------

    def fits(self, sequence: Sequence) -> bool:
        """Whether a waiting sequence finds a seat and blocks for all that is known of it."""
        hits = [] if sequence.status == "swapped" else self.memory.hits(sequence)
        return self.scheduler.seats > 0 and self._has_blocks(sequence.known, hits)

    def _has_blocks(self, tokens: int, hits: list[int]) -> bool:
        """Whether an admission finds blocks for `tokens` tokens, `hits` of them cached.

        The watermark stays free, unless nobody else runs.
        """
        pool = self.pool
        spare = pool.watermark_blocks if self.scheduler.running else 0
        return pool.blocks_for(tokens) - len(hits) + pool.idle(hits) + spare <= pool.free

    def _fails(self, reason: Reason, blocker: str | None) -> bool:
        self.stop = (reason, blocker)
        return False

    def candidates(self) -> list[Sequence]:
        """Running sequences that can be preempted, oldest admission first: those that did not advance in this step."""
        prefilling = self.scheduler.prefilling
        decoding, speculating = self.tick < 0, self.scheduler.speculating
        advanced = {part.sequence.serial for part in self.parts} | self.pinned
        return [sequence for serial, sequence in self.scheduler.running.items() if serial not in advanced
                and (serial in prefilling or serial in speculating
                     or (decoding and (sequence.slot is not None or sequence in self.held)))]

    def preempt(self, sequence: Sequence) -> None:
        """Send a running sequence back to those who wait, its blocks to the host or to the pool."""
        swap = self.scheduler.unseat(sequence)
        if swap is not None:
            self.swapped_out += (swap,)
        if self.held:
            self.held = tuple(held for held in self.held if held is not sequence)
        self.preempted += (sequence,)

    def refuse(self, sequence: Sequence, reason: str) -> None:
        """Give up on a waiting sequence."""
        self.scheduler.end(sequence, "refused", self.now_ns, reason)
        self.refused += (sequence,)

    def compose(self) -> None:
        """Let the policy compose the step; once more when all it did was to take blocks away from those who need them."""
        policy = self.scheduler.policy
        policy.compose(self)
        if self.preempted and self.tick < 0 and not self.parts:
            self.short, self.stop = False, None
            self.joining = tuple(sequence for sequence in self.joining if sequence not in self.held)
            for sequence in self.held:
                self.scheduler.join(sequence)
            self.held = ()
            policy.compose(self)

    # The plan -------------------------------------------------------------------------------------------------------

    def plan(self) -> StepPlan:
        """The step as it stands, frozen."""
        scheduler, parts = self.scheduler, self.parts
        if self.swapped_in:
            self.memory.free_host(self.swapped_in)
        singles = sum(part.decode for part in parts) if parts else 0
        return StepPlan(
            step=scheduler.steps, tick=self.tick, decode_count=len(self.decodes) + singles,
            decode_context=self.context, decode_longest=self.longest, prefill_tokens=self.prefill_tokens,
            copies=self.copies, evicted=self.pool.take_evicted(), preempted=_ids(self.preempted),
            refused=_ids(self.refused), swapped_out=self.swapped_out, swapped_in=self.swapped_in,
            blocks_used=self.pool.used, running=len(scheduler.running), waiting=len(scheduler.queue),
            decodes=self.decodes, finishing=self.finishing, parts=parts, holds=holds(scheduler, self),
            block_size=self.pool.block_size,
            draft_tokens=sum([part.drafts for part in parts]) if self.limits.draft_tokens else 0)


def _ids(sequences: tuple[Sequence, ...]) -> tuple[str, ...]:
    return tuple(sequence.request.id for sequence in sequences) if sequences else ()
