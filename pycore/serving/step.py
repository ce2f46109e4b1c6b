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

from pycore.serving.decodes import Slot
from pycore.serving.plan import Hold, Part, Reason, StepPlan, Swap
from pycore.serving.sequence import Sequence

if TYPE_CHECKING:
    from pycore.serving.scheduler import Scheduler


class Step:
    """The step being composed. `room` is how many tokens it may still spend."""

    __slots__ = ("scheduler", "now_ns", "room", "memory", "pool", "parts", "tick", "decodes", "context", "longest",
                 "finishing", "joining", "held", "copies", "preempted", "refused", "swapped_out", "swapped_in", "stop",
                 "biggest", "prefill_tokens", "admitted")

    def __init__(self, scheduler: "Scheduler", now_ns: int):
        self.scheduler, self.now_ns = scheduler, now_ns
        self.room = scheduler.limits.max_batched_tokens
        self.memory, self.pool = scheduler.memory, scheduler.pool
        self.parts: list[Part] = []
        self.tick, self.decodes, self.context, self.longest = -1, (), 0, 0
        self.finishing: list[Sequence] = []
        self.joining: list[Sequence] = []
        self.held: list[Sequence] = []
        self.copies: list[tuple[int, int]] = []
        self.preempted: list[Sequence] = []
        self.refused: list[Sequence] = []
        self.swapped_out: list[Swap] = []
        self.swapped_in: list[Swap] = []
        self.stop: tuple[Reason, str | None] | None = None
        self.biggest: Part | None = None
        self.prefill_tokens = self.admitted = 0

    # What a policy asks ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> "tuple[Sequence, ...]":
        """Those who wait, in the policy's order."""
        return self.scheduler.waiting

    @property
    def may_admit(self) -> bool:
        """A token, a seat and somebody to take them; never after a preemption in the same step (as vLLM does)."""
        scheduler = self.scheduler
        if not len(scheduler.queue):
            return False
        if self.preempted:
            self.stop = self.stop or ("no blocks", None)
        elif len(scheduler.running) >= scheduler.limits.max_sequences:
            self.stop = ("batch full", None)
        elif self.room <= 0:
            self.stop = self._spent()
        else:
            return True
        return False

    def limit(self, tokens: int) -> None:
        """Let the step spend at most so many tokens."""
        self.room = min(self.room, tokens)

    # Decodes --------------------------------------------------------------------------------------------------------

    def decode(self) -> None:
        """One token for every member of the decode set that the room allows; those that find no block are preempted."""
        decodes = self.scheduler.decodes
        if not decodes.members or self.tick >= 0:
            return
        if len(decodes.members) > self.room:
            self._hold_decodes(tuple(decodes.members.values())[self.room:])
        if self.memory.forked:
            self._unshare_decodes()
        border = decodes.at_border()
        if border:
            self._grow_decodes(border)
        if decodes.members:
            self.decodes, self.context, self.longest = decodes.snapshot(), decodes.context, decodes.longest
            self.tick, self.room = decodes.tick, self.room - len(decodes.members)
            self.finishing += [slot.sequence for slot in decodes.advance()]
        self.joining += self.held

    def _hold_decodes(self, slots: tuple[Slot, ...]) -> None:
        for slot in slots:
            self.scheduler.leave_decodes(slot.sequence)
            self.held.append(slot.sequence)

    def _grow_decodes(self, border: dict[int, Slot]) -> None:
        pool, memory = self.pool, self.memory
        if len(pool.queue) >= len(border):
            for slot, block in zip(border.values(), pool.take(len(border)), strict=True):
                sequence = slot.sequence
                if sequence.shareable:
                    memory.register(sequence, sequence.computed)
                sequence.block_table.append(block)
            return
        for sequence in sorted((slot.sequence for slot in border.values()), key=_admission):
            if sequence.slot is not None and self._find_blocks(sequence, 1):
                memory.register(sequence, sequence.computed)
                sequence.block_table += pool.take(1)

    def _unshare_decodes(self) -> None:
        for sequence in tuple(self.memory.forked.values()):
            if sequence.slot is not None and self._unshare(sequence):
                del self.memory.forked[sequence.serial]

    def _unshare(self, sequence: Sequence) -> bool:
        """Its own copy of the block it writes next, if that has other holders; False when it was preempted for want."""
        if self.memory.shares_its_next_block(sequence):
            if not self._find_blocks(sequence, 1):
                return False
            if self.memory.shares_its_next_block(sequence):  # the other holder may be gone by now
                self.copies.append(self.memory.copy_on_write(sequence))
        return True

    # Prompts --------------------------------------------------------------------------------------------------------

    def continue_prefills(self) -> None:
        """The next chunk of every prompt that was begun, oldest admission first, as far as the room goes."""
        for sequence in tuple(self.scheduler.prefilling.values()):
            if self.room <= 0:
                break
            if sequence.serial not in self.scheduler.prefilling:
                continue  # preempted for one before it
            count = min(sequence.known - sequence.computed_tokens, self.room)
            if sequence.serial in self.memory.forked:
                if not self._unshare(sequence):
                    continue
                del self.memory.forked[sequence.serial]
            need = self.pool.blocks_for(sequence.computed_tokens + count) - len(sequence.block_table)
            if self._find_blocks(sequence, need):
                sequence.block_table += self.pool.take(need)
                self._compute(sequence, count)

    def admit_in_order(self, order: Iterable[Sequence] | None = None, *, whole: bool = False) -> None:
        """Admit those who wait, in the policy's order or the one given, until one does not fit (nobody overtakes it)."""
        if order is not None:
            for sequence in order:
                if not self.admit(sequence, whole=whole):
                    return
            return
        while (head := self.scheduler.queue.head) is not None:
            if not self.admit(head, whole=whole):
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
        pool = self.pool
        hits = self.memory.hits(sequence)
        cached = len(hits) * pool.block_size
        count = min(sequence.known - cached, self.room)
        if whole and count < sequence.known - cached and (self.parts or self.tick >= 0):
            return self._fails(self._spent())
        reach = sequence.known if self.scheduler.limits.reserve_known else cached + count
        idle = sum(1 for block in hits if not pool.references[block])
        if not self._fits(pool.blocks_for(reach) - len(hits) + idle):
            return self._fails(("no blocks", sequence.id))
        for block in hits:
            pool.hold(block)
        sequence.block_table = hits + pool.take(pool.blocks_for(cached + count) - len(hits))
        sequence.registered, sequence.computed_tokens = len(hits), cached
        self.scheduler.seat(sequence, self.now_ns, cached)
        self.admitted += 1
        self._compute(sequence, count)
        return True

    def _compute(self, sequence: Sequence, count: int) -> None:
        """Enter `count` tokens of it into the step; at the end of what is known of it, a token comes out."""
        start, known = sequence.computed_tokens, sequence.known
        single = count == 1 and start >= sequence.prompt_tokens
        part = Part(sequence, start, count, decode=single, emits=start + count == known)
        self.parts.append(part)
        self.room -= count
        sequence.computed_tokens = start + count
        sequence.recomputed_tokens += max(0, min(start + count, sequence.peak_computed) - start)
        if single:
            self.context, self.longest = self.context + known, max(self.longest, known)
        else:
            self.prefill_tokens += count
            if self.biggest is None or count > self.biggest.count:
                self.biggest = part
        if not part.emits:
            self.scheduler.prefilling[sequence.serial] = sequence
            return
        self.scheduler.prefilling.pop(sequence.serial, None)
        sequence.issued_tokens += 1
        if sequence.issued_tokens == sequence.target:
            self.finishing.append(sequence)
        elif self.scheduler.hands_over:
            sequence.status = "handing over"
        else:
            self.joining.append(sequence)

    # Blocks and seats -----------------------------------------------------------------------------------------------

    def _fits(self, blocks: int) -> bool:
        """Whether an admission may take so many blocks. The watermark is waived when nobody else runs."""
        spare = self.pool.watermark_blocks if self.scheduler.running else 0
        return blocks + spare <= self.pool.free

    def _fails(self, stop: tuple[Reason, str | None]) -> bool:
        self.stop = stop
        return False

    def _spent(self) -> tuple[Reason, str | None]:
        return ("behind prefill", self.biggest.sequence_id) if self.biggest else ("token budget", None)

    def _find_blocks(self, sequence: Sequence, count: int) -> bool:
        """Preempt until `count` blocks are free for a running sequence; False when that took the sequence itself."""
        while self.pool.free < count:
            victim = self.scheduler.policy.victim(self.candidates())
            self.stop = self.stop or ("no blocks", sequence.id)
            self.preempt(victim)
            if victim is sequence:
                return False
        return True

    def candidates(self) -> list[Sequence]:
        """Running sequences that can be preempted, oldest admission first: those that have not advanced in this step."""
        advanced = {part.sequence.serial for part in self.parts}
        return [sequence for sequence in self.scheduler.running.values()
                if (sequence.slot is not None and self.tick < 0)
                or (sequence.serial in self.scheduler.prefilling and sequence.serial not in advanced)]

    def preempt(self, sequence: Sequence) -> None:
        """Send a running sequence back to those who wait, its blocks to the host or to the pool."""
        swap = self.scheduler.unseat(sequence)
        if swap is not None:
            self.swapped_out.append(swap)
        self.preempted.append(sequence)

    def refuse(self, sequence: Sequence, reason: str) -> None:
        """Give up on a waiting sequence."""
        self.scheduler.give_up(sequence, reason, self.now_ns)
        self.refused.append(sequence)

    def _swap_in(self, sequence: Sequence) -> bool:
        if not self._fits(max(len(sequence.host_table), self.pool.blocks_for(sequence.known))):
            return self._fails(("no blocks", sequence.id))
        self.swapped_in.append(self.memory.swap_in(sequence))
        self.scheduler.seat(sequence, self.now_ns, None)
        self.admitted += 1
        if sequence.computed_tokens < sequence.known - 1 or not sequence.issued_tokens:
            self.scheduler.prefilling[sequence.serial] = sequence
        else:
            self.joining.append(sequence)
        return True

    # The plan -------------------------------------------------------------------------------------------------------

    def plan(self) -> StepPlan:
        """The step as it stands, frozen; those who decode from the next step on join the decode set."""
        scheduler, parts = self.scheduler, self.parts
        singles = sum(1 for part in parts if part.decode)
        for sequence in self.joining:
            scheduler.decodes.join(sequence)
        evicted = ()
        if self.pool.evicted:
            evicted, self.pool.evicted = tuple(self.pool.evicted), []
        return StepPlan(
            step=scheduler.steps, tick=self.tick, decode_count=len(self.decodes) + singles,
            decode_context=self.context, decode_longest=self.longest, prefill_tokens=self.prefill_tokens,
            copies=tuple(self.copies), evicted=evicted, preempted=tuple(s.id for s in self.preempted),
            refused=tuple(s.id for s in self.refused), swapped_out=tuple(self.swapped_out),
            swapped_in=tuple(self.swapped_in), blocks_used=self.pool.used, running=len(scheduler.running),
            waiting=len(scheduler.queue), decodes=self.decodes, finishing=tuple(self.finishing), parts=tuple(parts),
            holds=self._holds(), block_size=self.pool.block_size)

    def _holds(self) -> tuple[Hold, ...]:
        scheduler, holds = self.scheduler, []
        if len(scheduler.queue):
            reason, blocker = self.stop or ("policy", None)
            holds.append(Hold(scheduler.waiting, reason, blocker))
        if scheduler.draining:
            holds.append(Hold(tuple(scheduler.draining.values()), "output in flight"))
        if scheduler.handing:
            holds.append(Hold(tuple(scheduler.handing.values()), "KV in flight"))
        if self.held:
            holds.append(Hold(tuple(self.held), *self._spent()))
        if self.tick < 0 and scheduler.decodes.members and not self.held:
            joined = {sequence.serial for sequence in self.joining}
            stalled = tuple(slot.sequence for slot in scheduler.decodes.snapshot() if slot.sequence.serial not in joined)
            reason, blocker = self._spent() if self.parts else ("policy", None)
            holds.append(Hold(stalled, reason, blocker))
        if self.swapped_in:
            holds.append(self._hold_swapped())
        advanced = {part.sequence.serial for part in self.parts}
        stalled = tuple(s for s in scheduler.prefilling.values() if s.serial not in advanced)
        if stalled:
            holds.append(Hold(stalled, *self._spent()))
        return tuple(holds)

    def _hold_swapped(self) -> Hold:
        ids = {swap.sequence_id for swap in self.swapped_in}
        return Hold(tuple(s for s in self.joining if s.id in ids), "KV in flight")


def _admission(sequence: Sequence) -> int:
    return sequence.admission
