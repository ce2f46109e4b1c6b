"""Moving a sequence between two schedulers: blocks and a seat are set aside at its goal before anything is sent."""

from pycore.serving.scheduler import Scheduler
from pycore.serving.sequence import Sequence


def reserve(goal: Scheduler, sequence: Sequence) -> tuple[int, int] | None:
    """Set a seat and blocks aside for a sequence on its way: (blocks in all, those of them already cached there).

    None when there is no room, or when others wait there: those who were preempted come back first.
    """
    pool = goal.pool
    if goal.seats <= 0 or goal.queue:
        return None
    hits = pool.match(sequence.key(index, pool.block_size) for index in range(_shared(sequence, pool.block_size)))
    spare = pool.watermark_blocks if goal.running or goal.arriving else 0
    if pool.blocks_for(sequence.known) - len(hits) + pool.idle(hits) + spare > pool.free:
        return None
    for block in hits:
        pool.hold(block)
    table = hits + pool.take(pool.blocks_for(sequence.computed_tokens) - len(hits))
    goal.arriving[sequence.id] = table
    return len(table), len(hits)


def _shared(sequence: Sequence, block_size: int) -> int:
    """Blocks of it that another sequence at the goal may have left there."""
    return sequence.registrable(sequence.computed_tokens, block_size, private=False)


def cancel(goal: Scheduler, sequence_id: str) -> None:
    """It will not come: free what was set aside."""
    goal.pool.release(goal.arriving.pop(sequence_id))


def move(source: Scheduler, goal: Scheduler, sequence: Sequence) -> None:
    """It has arrived: free its blocks at the source, seat it at the goal, decode from the next step on."""
    source.memory.release(sequence)
    del source.handing[sequence.serial], source.sequences[sequence.id]
    sequence.serial, sequence.decodes, sequence.keys = goal.next_serial(), goal.decodes, []
    sequence.block_table = goal.arriving.pop(sequence.id)
    goal.sequences[sequence.id] = sequence
    goal.take_seat(sequence)
    goal.memory.register(sequence, sequence.computed_tokens)
    goal.join(sequence)
