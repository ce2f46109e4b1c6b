"""Why each of those who did not advance in a step was held back: the ground of "why did request 17 wait?"."""

from typing import TYPE_CHECKING

from pycore.serving.plan import Hold, Reason

if TYPE_CHECKING:
    from pycore.serving.scheduler import Scheduler
    from pycore.serving.step import Step


def holds(scheduler: "Scheduler", step: "Step") -> tuple[Hold, ...]:
    """One `Hold` for each reason, over snapshots: O(1) where nobody was held back or only the queue was."""
    found = []
    if scheduler.queue:
        found.append(Hold(scheduler.queue.snapshot(), *(step.stop or ("policy", None))))
    if scheduler.draining:
        found.append(Hold(tuple(scheduler.draining.values()), "output in flight"))
    if scheduler.handing:
        found.append(Hold(tuple(scheduler.handing.values()), "KV in flight"))
    if step.held:
        found.append(Hold(step.held, *step.spent()))
    if step.tick < 0 and scheduler.decodes.members:
        found.append(_stalled_decodes(scheduler, step))
    if scheduler.speculating:
        busy = {part.sequence.serial for part in step.parts} | {sequence.serial for sequence in step.held}
        stalled = tuple(s for serial, s in scheduler.speculating.items() if serial not in busy)
        found.append(Hold(stalled, *_stall(step)))
    if step.swapped_in:
        ids = {swap.sequence_id for swap in step.swapped_in}
        advanced = {part.sequence_id for part in step.parts}
        found.append(Hold(tuple(scheduler.sequences[i] for i in sorted(ids - advanced)), "KV in flight"))
    if scheduler.prefilling:
        busy = {part.sequence.serial for part in step.parts} | {scheduler.sequences[swap.sequence_id].serial
                                                                for swap in step.swapped_in}
        found.append(Hold(tuple(s for serial, s in scheduler.prefilling.items() if serial not in busy), *step.spent()))
    return tuple(hold for hold in found if hold.sequences)


def _stalled_decodes(scheduler: "Scheduler", step: "Step") -> Hold:
    """Decodes that stood still because the policy gave the step to prompts."""
    return Hold(scheduler.decodes.snapshot(), *_stall(step))


def _stall(step: "Step") -> tuple[Reason, str | None]:
    return step.spent() if step.parts else ("policy", None)
