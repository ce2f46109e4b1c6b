"""Quiet stretches: steps that advance the same decodes and nothing else, run many at a time.

Between an arrival, a finish and the next, an engine decodes the same batch. How long that lasts is known beforehand:
until the next member produces its last token, or blocks run out. A driver that knows the time of each such step can then
pass all end times at once.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.serving.events import Event
from pycore.serving.plan import Hold, StepPlan

if TYPE_CHECKING:
    from pycore.serving.scheduler import Scheduler
    from pycore.serving.step import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietRun:
    """What a stretch did: blocks used, free ones with cached content and blocks evicted, as each of its steps was
    scheduled, and the events of its last step."""

    blocks_used: list[int]
    blocks_cached: list[int]
    evicted: list[int]
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
    if _may_push_out(scheduler):
        return False  # the head found room for itself, if not for its tokens; once decodes grow into it, it takes theirs
    if step.stop == ("batch full", None):
        return True
    head_may_hit = scheduler.pool.prefix_caching and any(sequence.shareable for sequence in scheduler.queue.first(1))
    return scheduler.policy.settled and not head_may_hit


def _may_push_out(scheduler: "Scheduler") -> bool:
    """Whether somebody runs who is less important than the head of the queue, which may take blocks and seats from it."""
    least = scheduler.queue.head.request.priority
    return getattr(scheduler.policy, "preemptive", False) and any(
        [sequence.request.priority > least for sequence in scheduler.running.values()])


def alone(scheduler: "Scheduler") -> bool:
    """Whether nobody waits and no prompt is under way, so that every step advances all decodes and nothing else. With
    several steps in flight the next arrival meets steps planned without it, so there nothing is certain."""
    limits = scheduler.limits
    if scheduler.queue or scheduler.prefilling or scheduler.memory.forked or limits.steps_in_flight > 1:
        return False
    return len(scheduler.decodes) <= min(limits.max_batched_tokens, limits.step_tokens)


def quiet_steps(scheduler: "Scheduler") -> int:
    """See Scheduler.quiet_steps."""
    decodes, free = scheduler.decodes, scheduler.pool.free
    if scheduler.in_flight or not decodes.members or not (scheduler.steady or alone(scheduler)):
        return 0
    size, members = scheduler.pool.block_size, len(decodes.members)
    steps = decodes.next_last_tick() - decodes.tick + 1
    rounds = free // members  # in `block_size` steps every member takes one block
    if rounds * size >= steps:
        return steps
    ahead, left = rounds * size, free - rounds * members
    while ahead < steps and decodes.bordering(ahead) <= left:
        left -= decodes.bordering(ahead)
        ahead += 1
    return ahead


def schedule_quiet(scheduler: "Scheduler") -> StepPlan:
    """See Scheduler.schedule_quiet."""
    if not quiet_steps(scheduler):
        raise ValueError("the next step is not quiet")
    decodes, pool, queue = scheduler.decodes, scheduler.pool, scheduler.queue
    border = decodes.at_border()
    if border:
        scheduler.memory.grow(border)
    members, tick, context, longest = decodes.snapshot(), decodes.tick, decodes.context, decodes.longest
    finishing = tuple([slot.sequence for slot in decodes.advance()])
    holds = (Hold(queue.snapshot(), *(scheduler.stop or ("policy", None))),) if queue else ()
    plan = StepPlan(step=scheduler.steps, tick=tick, decode_count=len(members), decode_context=context,
                    decode_longest=longest, evicted=pool.take_evicted(), blocks_used=pool.used,
                    running=len(scheduler.running), waiting=len(queue), decodes=members, finishing=finishing,
                    holds=holds, block_size=pool.block_size)
    scheduler.open(plan)
    scheduler.steady = not finishing
    return plan


def advance(scheduler: "Scheduler", ends_ns: tuple[int, ...]) -> QuietRun:
    """See Scheduler.advance."""
    count = len(ends_ns)
    if not 0 < count <= quiet_steps(scheduler):
        raise ValueError(f"{count} steps are not quiet: {quiet_steps(scheduler)} are")
    decodes, pool, used, cached, evicted = scheduler.decodes, scheduler.pool, [], [], [0] * count
    first, evicted[0] = decodes.tick, len(pool.take_evicted())  # for whom blocks were set aside since the last step
    for ahead in decodes.borders(count):
        used += [pool.used] * (ahead - len(used))  # nothing moved in the steps up to here
        cached += [pool.cached] * (ahead - len(cached))
        decodes.tick = first + ahead
        scheduler.memory.grow(decodes.at_border())
        evicted[ahead] += len(pool.take_evicted())
    used += [pool.used] * (count - len(used))
    cached += [pool.cached] * (count - len(cached))
    decodes.tick = first + count - 1
    finishing = decodes.advance()
    scheduler.steps += count
    decodes.done_tick = decodes.tick
    decodes.tick_ends_ns.extend(ends_ns)
    events = tuple([scheduler.end(slot.sequence, "finished", ends_ns[-1], "length") for slot in finishing])
    return QuietRun(blocks_used=used, blocks_cached=cached, evicted=evicted, events=events)
