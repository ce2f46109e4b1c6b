"""What one step does. Sums are fields, read in O(1) by a cost model; `items` spells every sequence out for an engine.

A plan never changes after it was made, and reads the same whenever it is expanded: decodes are kept as the decode set's
snapshot and a tick, waiting sequences as the queue's snapshot.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pycore.serving.decodes import Slot
    from pycore.serving.sequence import Sequence

Reason = Literal["token budget", "no blocks", "batch full", "behind prefill", "KV in flight", "output in flight",
                 "policy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """One sequence's part of a step: compute `count` tokens from position `start`, reading and writing `block_table`.

    `decode`: a single token after the prompt, and `drafts` guesses after it, which are part of `count`. `emits`: the
    step's last token of it gives the next token; with guesses it and each of them give one, to be kept while they agree.
    """

    sequence_id: str
    start: int
    count: int
    decode: bool
    emits: bool
    block_table: tuple[int, ...]
    drafts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A sequence that did not advance, and why; `blocker` is the sequence it waited behind, where there is one.

    token budget      the step's tokens were spent on others      batch full        every seat is taken
    no blocks         the pool lacks blocks for it (or for the one before it in the queue: the blocker)
    behind prefill    the blocker's prompt took the step           KV in flight      its keys and values are being moved
    output in flight  its last token is computed but not yet out   policy            the policy passed it over
    """

    sequence_id: str
    reason: Reason
    blocker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Blocks of one sequence to copy between device and host, pairwise. `size_bytes` is 0 where no size was given."""

    sequence_id: str
    device_blocks: tuple[int, ...]
    host_blocks: tuple[int, ...]
    size_bytes: int


class Part:
    """A prompt chunk (or the single token of a resumed sequence, or a token and guesses) in a plan, before it is spelled
    out."""

    __slots__ = ("sequence", "start", "count", "decode", "emits", "table", "drafts")

    def __init__(self, sequence: "Sequence", start: int, count: int, *, decode: bool, emits: bool):
        self.sequence, self.start, self.count, self.decode, self.emits = sequence, start, count, decode, emits
        self.table = sequence.block_table
        self.drafts = 0

    @property
    def sequence_id(self) -> str:
        return self.sequence.request.id


@dataclass(frozen=True, slots=True)
class Hold:
    """Sequences held back for one reason."""

    sequences: "tuple[Sequence, ...] | tuple[Slot, ...]"
    reason: Reason
    blocker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One step of one scheduler. Counts are of tokens unless they say otherwise.

    decode_count     sequences that decode (one token each)
    decode_context   tokens those attend to, their own included, summed;  decode_longest: the longest one
    draft_tokens     guesses verified beside the decodes' own tokens
    prefill_tokens   prompt tokens computed;  prefill_chunks: (count, start) of each chunk, start = tokens cached before it
    tick             number of this decode step; -1 when nobody of the decode set advanced
    copies           (source, target) blocks to copy before the step: copy-on-write
    evicted          blocks whose cached content was dropped;  preempted, refused: sequence ids
    blocks_used, running, waiting   the pool, the seats and the queue after scheduling
    """

    step: int
    tick: int = -1
    decode_count: int = 0
    decode_context: int = 0
    decode_longest: int = 0
    prefill_tokens: int = 0
    copies: tuple[tuple[int, int], ...] = ()
    evicted: tuple[int, ...] = ()
    preempted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    swapped_out: tuple[Swap, ...] = ()
    swapped_in: tuple[Swap, ...] = ()
    blocks_used: int = 0
    running: int = 0
    waiting: int = 0
    decodes: "tuple[Slot, ...]" = field(default=(), repr=False)
    finishing: "tuple[Sequence, ...]" = field(default=(), repr=False)
    parts: tuple[Part, ...] = field(default=(), repr=False)
    holds: tuple[Hold, ...] = field(default=(), repr=False)
    block_size: int = 16
    draft_tokens: int = 0

    @property
    def empty(self) -> bool:
        """Nothing to run: no token, no copy, no swap."""
        return not (self.decode_count or self.parts or self.copies or self.swapped_out or self.swapped_in)

    @property
    def tokens(self) -> int:
        """Tokens the step computes."""
        return self.decode_count + self.prefill_tokens + self.draft_tokens

    @property
    def swap_bytes(self) -> int:
        """Bytes moved between device and host."""
        return sum(swap.size_bytes for swap in self.swapped_out + self.swapped_in)

    @property
    def prefill_chunks(self) -> tuple[tuple[int, int], ...]:
        """(tokens computed, tokens cached before them) of every prompt chunk."""
        return tuple((part.count, part.start) for part in self.parts if not part.decode)

    @property
    def prefilling(self) -> tuple[str, ...]:
        """Ids of the sequences whose prompt advances."""
        return tuple(part.sequence_id for part in self.parts if not part.decode)

    def decode_contexts(self) -> list[int]:
        """Context of every decode, its own token included. O(decodes)."""
        after = self.tick + 1
        return [slot.offset + after for slot in self.decodes] + [part.start + 1 for part in self.parts if part.decode]

    @property
    def items(self) -> tuple[Scheduled, ...]:
        """Every sequence's part, decodes first. O(sequences and blocks), made anew at each call."""
        block = self.block_size
        decodes = [Scheduled(sequence_id=slot.id, start=slot.offset + self.tick, count=1, decode=True,
                             emits=True, block_table=tuple(slot.table[:(slot.offset + self.tick) // block + 1]))
                   for slot in self.decodes]
        parts = [Scheduled(sequence_id=part.sequence_id, start=part.start, count=part.count, decode=part.decode,
                           emits=part.emits, block_table=tuple(part.table[:-(-(part.start + part.count) // block)]),
                           drafts=part.drafts)
                 for part in self.parts]
        return tuple(decodes + parts)

    @property
    def held_back(self) -> tuple[HeldBack, ...]:
        """Every waiting or running sequence that did not advance, and why. O(those), made anew at each call."""
        return tuple(HeldBack(sequence_id=sequence.id, reason=hold.reason,
                              blocker=None if hold.blocker == sequence.id else hold.blocker)
                     for hold in self.holds for sequence in hold.sequences)
