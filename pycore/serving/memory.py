"""Blocks of sequences: what they hit, hold, share, copy on write, move to the host and give back. Decides nothing."""

from pycore.serving.blocks import BlockPool
from pycore.serving.decodes import DecodeSet, Slot
from pycore.serving.plan import Swap
from pycore.serving.sequence import Sequence


class Memory:
    """The device pool and, for preemption by swap, a host pool of its own size (0: none)."""

    __slots__ = ("pool", "host", "block_bytes", "decodes", "forked")

    def __init__(self, pool: BlockPool, decodes: DecodeSet, *, host_blocks: int = 0, block_bytes: int = 0):
        self.pool, self.decodes, self.block_bytes = pool, decodes, block_bytes
        self.host = BlockPool(host_blocks, pool.block_size, prefix_caching=False) if host_blocks else None
        self.forked: dict[int, Sequence] = {}  # those whose last block may have another holder

    def hits(self, sequence: Sequence) -> list[int]:
        """Cached blocks that a sequence can start from. Its last known token is computed in any case: it gives the next.

        So at most floor((known - 1) / block size) blocks, as in vLLM; a partial block never hits.
        """
        pool = self.pool
        if not pool.prefix_caching or not (sequence.shareable or sequence.preemptions):
            return []
        size, most = pool.block_size, (sequence.known - 1) // pool.block_size
        return pool.match(sequence.key(index, size) for index in range(most))

    def start(self, sequence: Sequence, hits: list[int], tokens: int) -> None:
        """Blocks for its first `tokens` tokens: the ones it hit and new ones. The caller has asked for room."""
        for block in hits:
            self.pool.hold(block)
        sequence.block_table = hits + self.pool.take(self.pool.blocks_for(tokens) - len(hits))
        sequence.registered, sequence.computed_tokens = len(hits), len(hits) * self.pool.block_size

    def grow(self, border: dict[int, Slot]) -> None:
        """One block more for each of these decodes, all of whose blocks are full. As many must be free."""
        for slot, block in zip(border.values(), self.pool.take(len(border)), strict=True):
            sequence = slot.sequence
            if sequence.shareable:
                self.register(sequence, sequence.computed)
            sequence.block_table.append(block)

    def register(self, sequence: Sequence, tokens: int, *, private: bool = False) -> None:
        """Enter its full blocks among the first `tokens` into the prefix cache.

        Where another sequence has computed the same prefix meanwhile, its block is used and ours given back.
        """
        pool = self.pool
        if not pool.prefix_caching:
            return
        upto = sequence.registrable(tokens, pool.block_size, private=private)
        while sequence.registered < upto:
            index = sequence.registered
            table = sequence.block_table
            block = pool.register(sequence.key(index, pool.block_size), table, index)
            if block is None:
                return
            if block != table[index]:
                pool.hold(block)
                self._replace(sequence, index, block)
            sequence.registered += 1

    def _replace(self, sequence: Sequence, index: int, block: int) -> None:
        """Use `block`, held for it, at `index` and give the old one back. Plans made before keep the old table."""
        table = list(sequence.block_table)
        self.pool.release((table[index],))
        table[index] = block
        sequence.block_table = table
        if sequence.slot is not None:
            self.decodes.replace_table(sequence.slot, table)

    def shares_its_next_block(self, sequence: Sequence) -> bool:
        """Whether its next token would be written into a block that another sequence holds too."""
        at = sequence.computed // self.pool.block_size
        return at < len(sequence.block_table) and self.pool.references[sequence.block_table[at]] > 1

    def copy_on_write(self, sequence: Sequence) -> tuple[int, int]:
        """Give it a block of its own for its next token: (source, target) to copy. A block must be free."""
        at = sequence.computed // self.pool.block_size
        source, (target,) = sequence.block_table[at], self.pool.take(1)
        self._replace(sequence, at, target)
        return source, target

    def trim(self, sequence: Sequence, tokens: int) -> None:
        """Keep the blocks of its first `tokens` tokens; those after them, just taken, are given back. Plans made before keep
        the old table."""
        kept = self.pool.blocks_for(tokens)
        if len(sequence.block_table) > kept:
            self.pool.give_back(sequence.block_table[kept:])
            sequence.block_table = sequence.block_table[:kept]

    def release(self, sequence: Sequence, *, private: bool = False) -> None:
        """Give all its blocks back, with their content: `private` when it will come back for them."""
        if sequence.block_table and (private or sequence.shareable):
            self.register(sequence, sequence.computed, private=private)
        self.pool.release(sequence.block_table)
        sequence.block_table = []
        sequence.registered = 0
        self.forked.pop(sequence.serial, None)

    def swap_out(self, sequence: Sequence) -> Swap | None:
        """Move what it has computed to the host; None when the host has no room. An empty block, got for later, stays."""
        table = sequence.block_table[:self.pool.blocks_for(sequence.computed_tokens)]
        if self.host is None or len(table) > self.host.free:
            return None
        sequence.host_table = self.host.take(len(table))
        swap = self._swap(sequence, tuple(table))
        self.release(sequence)
        return swap

    def swap_in(self, sequence: Sequence) -> Swap:
        """Bring its blocks back into new ones; the caller has asked for room."""
        sequence.block_table = self.pool.take(len(sequence.host_table))
        swap = self._swap(sequence, tuple(sequence.block_table))
        sequence.host_table = []
        return swap

    def free_host(self, swaps: tuple[Swap, ...]) -> None:
        """Host blocks of sequences swapped in are free for the next step: in this one, swaps out happen first."""
        for swap in swaps:
            self.host.release(swap.host_blocks)

    def drop_host(self, sequence: Sequence) -> None:
        if sequence.host_table:
            self.host.release(sequence.host_table)
            sequence.host_table = []

    def _swap(self, sequence: Sequence, device: tuple[int, ...]) -> Swap:
        return Swap(sequence_id=sequence.id, device_blocks=device, host_blocks=tuple(sequence.host_table),
                    size_bytes=len(device) * self.block_bytes)
