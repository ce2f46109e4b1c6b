"""Quiet stretches: steps that advance the same decodes and nothing else, run many at a time.

Between an arrival, a finish and the next, an engine decodes the same batch. How long that lasts is known beforehand:
until the next member produces its last token, or blocks run out. A driver that knows the time of each such step can then
pass all end times at once.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.serving.events import Event

if TYPE_CHECKING:
    from pycore.serving.scheduler import Scheduler
    from pycore.serving.step import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietRun:
    """What a stretch did: blocks used, free ones with cached content and blocks evicted, as each of its steps was
    scheduled, and the events of its last step."""

    blocks_used: tuple[int, ...]
    blocks_cached: tuple[int, ...]
    evicted: tuple[int, ...]
    events: tuple[Event, ...]


def steady(scheduler: "Scheduler", step: "Step") -> bool:
    """Whether the step only advanced decodes, and whoever waits will wait until one of them finishes."""
    if step.tick < 0 or step.finishing or step.joining or step.parts or step.copies or step.preempted or step.refused:
        return False
    if step.swapped_in or scheduler.prefilling or scheduler.memory.forked:
        return False
    if not scheduler.queue:
        return True
    if getattr(scheduler.policy, "shed", False):
        return False  # time alone can make it give up on somebody
    if step.stop == ("batch full", None):
        return True
    head_may_hit = scheduler.pool.prefix_caching and any(sequence.shareable for sequence in scheduler.queue.first(1))
    return scheduler.policy.settled and not head_may_hit


def quiet_steps(scheduler: "Scheduler") -> int:
    """See Scheduler.quiet_steps."""
    decodes, free = scheduler.decodes, scheduler.pool.free
    last = decodes.next_last_tick()
    if not scheduler.steady or scheduler.in_flight or last is None:
        return 0
    steps, size, members = last - decodes.tick + 1, scheduler.pool.block_size, len(decodes.members)
    rounds = free // members  # in `block_size` steps every member takes one block
    if rounds * size >= steps:
        return steps
    ahead, left = rounds * size, free - rounds * members
    while ahead < steps and decodes.bordering(ahead) <= left:
        left -= decodes.bordering(ahead)
        ahead += 1
    return ahead


def advance(scheduler: "Scheduler", ends_ns: tuple[int, ...]) -> QuietRun:
    """See Scheduler.advance."""
    if len(ends_ns) > quiet_steps(scheduler):
        raise ValueError(f"{len(ends_ns)} steps are not quiet: {quiet_steps(scheduler)} are")
    decodes, pool, used, cached = scheduler.decodes, scheduler.pool, [], []
    evicted = []
    finishing = ()
    for _ in ends_ns:
        border = decodes.at_border()
        if border:
            scheduler.memory.grow(border)
        used.append(pool.used)
        cached.append(pool.cached)
        evicted.append(len(pool.take_evicted()))
        finishing = decodes.advance()
    scheduler.steps += len(ends_ns)
    decodes.done_tick = decodes.tick
    decodes.tick_ends_ns.extend(ends_ns)
    events = tuple(scheduler.end(slot.sequence, "finished", ends_ns[-1], "length") for slot in finishing)
    return QuietRun(blocks_used=tuple(used), blocks_cached=tuple(cached), evicted=tuple(evicted), events=events)
