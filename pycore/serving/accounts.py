"""Whether every block, seat and token of a scheduler is accounted for: told from all sequences, nothing of it kept."""

from typing import TYPE_CHECKING

from pycore.serving.blocks import Census

if TYPE_CHECKING:
    from pycore.serving.scheduler import Scheduler


def check(scheduler: "Scheduler") -> Census:
    """See `Scheduler.check`. Raises AssertionError."""
    live = scheduler.sequences.values()
    census = scheduler.pool.check([*(sequence.block_table for sequence in live), *scheduler.arriving.values()])
    for sequence in live:
        held = scheduler.pool.blocks_for(sequence.computed + sequence.drafted) if sequence.block_table else 0
        seated = sequence.serial in scheduler.running or sequence.serial in scheduler.handing
        assert seated == bool(sequence.block_table), f"{sequence.id} is {sequence.status}, seated {seated}"
        assert len(sequence.block_table) == held, f"{sequence.id} holds {len(sequence.block_table)}, not {held}"
        assert sequence.generated <= sequence.issued <= sequence.target, f"{sequence.id} miscounts its tokens"
    somewhere = len(scheduler.queue) + len(scheduler.running) + len(scheduler.handing)
    assert somewhere == len(scheduler.sequences), "a sequence is nowhere"
    assert scheduler.seats >= 0, "more sequences than seats"
    assert scheduler.speculating.keys() <= scheduler.running.keys(), "a sequence decodes ahead without a seat"
    if scheduler.memory.host is not None:
        scheduler.memory.host.check(sequence.host_table for sequence in live)
    return census
