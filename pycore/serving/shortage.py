"""Blocks for sequences that already run: growth, copies on write, and preemption when the pool has none left."""

from typing import TYPE_CHECKING

from pycore.serving.decodes import Slot
from pycore.serving.sequence import Sequence

if TYPE_CHECKING:
    from pycore.serving.step import Step


def find_blocks(step: "Step", sequence: Sequence, count: int) -> bool:
    """Preempt until `count` blocks are free for a running sequence; False when that took the sequence itself."""
    while step.pool.free < count:
        victim = step.scheduler.policy.victim(step.candidates())
        if not step.short:
            step.short, step.stop = True, ("no blocks", sequence.id)
        step.preempt(victim)
        if victim is sequence:
            return False
    return True


def grow_decodes(step: "Step", border: dict[int, Slot]) -> None:
    """A new block for each decode that crosses a border, oldest admission first where they do not suffice."""
    if step.pool.free >= len(border):
        step.memory.grow(border)
        return
    for sequence in sorted((slot.sequence for slot in border.values()), key=lambda sequence: sequence.admission):
        if sequence.slot is not None and find_blocks(step, sequence, 1):
            step.memory.grow({sequence.serial: sequence.slot})


def unshare_decodes(step: "Step") -> None:
    """Before they write: a block of their own for decodes whose last block has other holders since a fork."""
    for sequence in tuple(step.memory.forked.values()):
        if sequence.slot is not None and extend(step, sequence, 0):
            step.memory.forked.pop(sequence.serial, None)


def extend(step: "Step", sequence: Sequence, count: int) -> bool:
    """`count` more blocks for a running sequence, and its own copy of the block it writes next where that is shared.

    False when it was preempted for want of them. Whoever has a copy in this step is no candidate for preemption any
    more: swaps out happen before copies, and must find what they move.
    """
    memory = step.memory
    shared = sequence.serial in memory.forked and memory.shares_its_next_block(sequence)
    if not find_blocks(step, sequence, count + shared):
        return False
    if shared and memory.shares_its_next_block(sequence):  # the other holder may be gone by now
        step.copies += (memory.copy_on_write(sequence),)
        step.pinned.add(sequence.serial)
    sequence.block_table += step.pool.take(count)
    return True
