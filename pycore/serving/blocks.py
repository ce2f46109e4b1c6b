"""The pool of physical KV blocks: references, a free queue that keeps content, and the rule who is evicted first.

A block is used (references > 0), or it stands in the free queue. A freed block keeps its content until it is handed out
again: while the prefix cache can still find it, it is "cached", else "blank"; both are free to take. The queue is one
line, oldest freed first, as in vLLM's block pool: blank blocks do not jump it.

free (cached + blank) + used = total, always; `check` proves it against the tables of all holders.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.serving.prefix import PrefixCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Every block of a pool counted once: used + cached + blank = total. `shared` of the used have several holders."""

    total: int
    used: int
    shared: int
    cached: int
    blank: int


class BlockPool:
    """`blocks` physical blocks of `block_size` tokens.

    watermark       share of the pool that admission leaves free (running sequences may use it); 0 as in vLLM v1
    prefix_caching  False: freed content is never found again
    null_block      True: block 0 is set aside and never handed out, as in vLLM (2,588 blocks hold 2,587)

    Raises InputError for a pool without a usable block.
    """

    __slots__ = ("block_size", "total", "watermark_blocks", "prefix_caching", "references", "queue", "cache", "evicted",
                 "cached")

    def __init__(self, blocks: int, block_size: int = 16, *, watermark: float = 0.0, prefix_caching: bool = True,
                 null_block: bool = False):
        first = 1 if null_block else 0
        if blocks - first < 1:
            raise InputError("blocks", blocks, f"at least {first + 1}")
        if block_size < 1:
            raise InputError("block_size", block_size, "at least one token a block")
        if not 0 <= watermark < 1:
            raise InputError("watermark", watermark, "a share of the pool from 0 to below 1")
        self.block_size, self.total = block_size, blocks - first
        self.watermark_blocks = int(watermark * self.total)
        self.prefix_caching = prefix_caching
        self.references = [0] * blocks
        self.queue: OrderedDict[int, None] = OrderedDict.fromkeys(range(first, blocks))
        self.cache = PrefixCache()
        self.cached = 0  # blocks in the queue whose content can be found
        self.evicted: list[int] = []  # blocks whose cached content was dropped since the scheduler last asked

    @property
    def free(self) -> int:
        """Blocks that can be taken, with or without cached content."""
        return len(self.queue)

    @property
    def used(self) -> int:
        return self.total - len(self.queue)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold so many tokens: ceil(tokens / block size)."""
        return -(-tokens // self.block_size)

    def take(self, count: int) -> list[int]:
        """The `count` blocks that were freed longest ago; their content is dropped. The caller asks `free` first."""
        pop, references, cached = self.queue.popitem, self.references, self.cache.by_block
        taken = []
        for _ in range(count):
            block = pop(False)[0]
            if block in cached:
                self.cache.evict(block)
                self.evicted.append(block)
                self.cached -= 1
            references[block] = 1
            taken.append(block)
        return taken

    def hold(self, block: int) -> None:
        """One more holder; a block in the queue leaves it with its content."""
        if not self.references[block]:
            del self.queue[block]
            self.cached -= block in self.cache.by_block
        self.references[block] += 1

    def release(self, table: Iterable[int]) -> None:
        """One holder fewer for each block of a table, last block first, so that tails are evicted before heads."""
        references, queue, findable = self.references, self.queue, self.cache.by_block
        for block in reversed(tuple(table)):
            left = references[block] - 1
            references[block] = left
            if not left:
                queue[block] = None
                self.cached += block in findable
            elif left < 0:
                raise AssertionError(f"block {block} is released more often than held")

    def give_back(self, table: Iterable[int]) -> None:
        """Take back blocks that were taken and turned out not to be needed: the next to be handed out again, so that no
        cached content is evicted in their stead. They have one holder and hold nothing that can be found."""
        for block in reversed(tuple(table)):
            if self.references[block] != 1 or block in self.cache.by_block:
                raise AssertionError(f"block {block} is needed: it has {self.references[block]} holders or is cached")
            self.references[block] = 0
            self.queue[block] = None
            self.queue.move_to_end(block, last=False)

    def idle(self, blocks: list[int]) -> int:
        """How many of these blocks stand in the free queue, so that holding them uses it up."""
        references = self.references
        return sum(1 for block in blocks if not references[block])

    def take_evicted(self) -> tuple[int, ...]:
        """Blocks whose cached content was dropped since the last call."""
        if not self.evicted:
            return ()
        evicted, self.evicted = tuple(self.evicted), []
        return evicted

    def match(self, keys: Iterable[int | tuple[int, int]]) -> list[int]:
        """Blocks of the longest cached prefix; empty without prefix caching."""
        return self.cache.match(keys) if self.prefix_caching else []

    def register(self, key: int | tuple[int, int], table: list[int], index: int) -> int | None:
        """Make the full block `table[index]` findable; the block to use for this content from now on.

        That is the block itself, or one that already holds the same prefix (the caller gives its own back). None: the
        block is known under another key (a fork did that), so this chain ends here.
        """
        block, known = table[index], self.cache.block_of(key)
        if known is not None:
            return known
        if block in self.cache.by_block:
            return None
        self.cache.insert(key, block, table[index - 1] if index else None)
        return block

    def census(self) -> Census:
        cached = sum(1 for block in self.queue if block in self.cache.by_block)
        return Census(total=self.total, used=self.used, shared=sum(1 for count in self.references if count > 1),
                      cached=cached, blank=len(self.queue) - cached)

    def check(self, tables: Iterable[Iterable[int]]) -> Census:
        """Count all holders anew. Raises AssertionError naming the block whose count is wrong; returns the census."""
        held = [0] * len(self.references)
        for table in tables:
            for block in table:
                held[block] += 1
        for block, (counted, kept) in enumerate(zip(held, self.references, strict=True)):
            assert counted == kept, f"block {block} has {counted} holders and says {kept}"
            assert not (kept and block in self.queue), f"block {block} is held and free at once"
        assert self.cached == sum(block in self.cache.by_block for block in self.queue), "cached blocks are miscounted"
        assert len(self.queue) + sum(1 for count in held if count) == self.total, "blocks were lost"
        self.cache.check()
        return self.census()
