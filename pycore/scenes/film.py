"""What a picture of the pool shows, as plain data. A film is its frames in order; a frame is whole in itself.

Tokens are counts; blocks are physical block numbers; `text` of tokens is for reading, never for computing.
"""

from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["blank", "cached", "held", "shared"]
FrameKind = Literal["arrive", "fork", "abort", "refuse", "step", "finish"]
Mark = Literal["", "new", "hit", "split"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockState:
    """One physical block.

    state       blank: free, nothing to be found in it. cached: free, its content can still be hit. held: one holder.
                shared: several
    references  holders, as the pool counts them;  holders: the same as names, from the tables
    filled      slots whose content counts (of the block size)
    key         first 8 hexadecimal digits under which the prefix cache finds it; '' where it does not
    tokens      what the filled slots hold
    """

    block: int
    state: BlockKind
    references: int
    filled: int
    holders: tuple[str, ...]
    key: str
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One sequence that is not over, and its block table.

    status    waiting, running or swapped;  waits: why it did not advance in this frame's step ('' where it did)
    prompt, computed, generated, target   tokens: asked, with keys and values, produced, to be produced
    cached    prompt tokens that a prefix hit spared it;  preemptions: how often it lost its blocks
    blocks    physical blocks in order;  host_blocks: those on the host while it is swapped out
    tokens    prompt and output so far
    """

    sequence: str
    status: str
    waits: str
    prompt: int
    computed: int
    generated: int
    target: int
    cached: int
    preemptions: int
    blocks: tuple[int, ...]
    host_blocks: tuple[int, ...]
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One sequence's part of a step: tokens [start, start + count) computed; `blocks` are those it wrote into.

    drafts  of them, guesses that were checked;  tokens: what came out (several with guesses, none of a prompt's middle)
    hit     tokens found in the prefix cache at this admission
    """

    sequence: str
    start: int
    count: int
    decode: bool
    drafts: int
    hit: int
    blocks: tuple[int, ...]
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A law of the pool, checked on this frame. `says`: the figures where it holds, the fault where it does not."""

    name: str
    law: str
    holds: bool
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A run of cached blocks without a fork between them: one node of the radix tree as it is drawn.

    id          its first block;  parent: id of the node above, None at the top
    blocks      in order;  references: holders of each;  tokens: what they hold, in order
    mark        what this frame did: new (entered), hit (a prefix found it), split (its lower part became a node)
    """

    id: int
    parent: int | None
    depth: int
    blocks: tuple[int, ...]
    references: tuple[int, ...]
    tokens: tuple[str, ...]
    children: int
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """Slots that this frame's running sequences take, paged and in one piece each, for the same requests.

    stored      tokens kept, a shared block's once;  paged: slots of all blocks held
    unshared    tokens kept if nothing were shared
    longest     contiguous, every sequence reserves the longest text allowed
    doubling    contiguous, the next power of two of prompt + output so far: what a buffer that doubles takes
    exact       contiguous, prompt + output to come, as if the length were known beforehand
    """

    sequences: int
    stored: int
    paged: int
    unshared: int
    longest: int
    doubling: int
    exact: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One picture: after an event, or after a step.

    number     from 1;  step: number of the scheduler's step, 0 for an event between steps
    what       one sentence;  lines: the rest of what happened, a sentence each
    tags       of prefill, decode, hit, copy, evict, preempt, swap, finish: what happened in it
    blocks     every block of the pool;  used: how many are held;  cached: how many are free and can be hit
    free       the free queue, next to be taken first
    tables     every sequence that is not over, in order of arrival;  work: who advanced
    copies     (source, target);  evicted: blocks whose cached content was dropped
    touched_blocks, touched_sequences   what differs from the frame before
    tree       the prefix cache;  waiting: ids in the queue's order
    """

    number: int
    kind: FrameKind
    step: int
    what: str
    lines: tuple[str, ...]
    tags: tuple[str, ...]
    blocks: tuple[BlockState, ...]
    used: int
    cached: int
    free: tuple[int, ...]
    tables: tuple[Table, ...]
    waiting: tuple[str, ...]
    work: tuple[Work, ...]
    copies: tuple[tuple[int, int], ...]
    evicted: tuple[int, ...]
    preempted: tuple[str, ...]
    finished: tuple[str, ...]
    touched_blocks: tuple[int, ...]
    touched_sequences: tuple[str, ...]
    tree: tuple[TreeNode, ...]
    asked_tokens: int
    hit_tokens: int
    waste: Waste
    invariants: tuple[Invariant, ...]

    @property
    def holds(self) -> bool:
        """Whether every law does."""
        return all(one.holds for one in self.invariants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What one request asked and got. `status`: finished, aborted, refused, or how it stands at the end."""

    sequence: str
    prompt: tuple[str, ...]
    output: tuple[str, ...]
    status: str
    cached: int
    preemptions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """A scene from first to last. `opens`: number of the frame to show where none was asked for.

    longest   tokens that a contiguous allocation reserves for each sequence;  notes: what a reader must know
    """

    frames: tuple[Frame, ...]
    opens: int
    block_size: int
    blocks: int
    longest: int
    policy: str
    texts: tuple[Text, ...]
    notes: tuple[str, ...] = ()

    def frame(self, number: int) -> Frame:
        """Frame `number`, counted from 1; beyond the last means the last, 0 the one that the film opens with."""
        return self.frames[min(number or self.opens, len(self.frames)) - 1]

    def first_broken(self) -> tuple[Frame, Invariant] | None:
        """The first frame where a law does not hold, and that law; None where all hold throughout."""
        return next(((frame, law) for frame in self.frames for law in frame.invariants if not law.holds), None)
