"""What a completed step changes: tokens are out, prompts are cached, guesses are rolled back, sequences finish."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pycore.serving import ahead
from pycore.serving.events import Event
from pycore.serving.plan import Part, StepPlan

if TYPE_CHECKING:
    from pycore.serving.scheduler import Scheduler


def complete(scheduler: "Scheduler", plan: StepPlan, now_ns: int, tokens: Mapping[str, int | tuple[int, ...]] | None,
             stopped: Iterable[str], accepted: Mapping[str, int], branches: Mapping[str, Mapping[str, int]]
             ) -> tuple[Event, ...]:
    """See Scheduler.complete. Costs O(1) for the decodes, O(1) for each prompt chunk and each sequence that finishes."""
    in_flight = scheduler.in_flight
    if not in_flight or plan is not in_flight[0]:
        raise ValueError("steps complete in the order in which they were scheduled")
    came = _came(plan, tokens, accepted) if plan.draft_tokens else {}
    if tokens is not None:
        _take_tokens(plan, tokens, came)
    in_flight.popleft()
    if plan.tick >= 0:
        scheduler.decodes.done_tick = plan.tick + 1
        scheduler.decodes.tick_ends_ns.append(now_ns)
    if scheduler.late:
        for sequence in scheduler.late.pop(plan.step, ()):
            sequence.generated_tokens += not sequence.over
    events: list[Event] = []
    for part in plan.parts:
        if not part.sequence.over:
            _complete_part(scheduler, part, now_ns, events, came.get(part.sequence.id, 1) if came else 1)
    for parent, children in branches.items():
        for child, token in children.items():
            scheduler.fork(parent, child, token)
    finishing = plan.finishing
    if came:
        finishing += tuple(part.sequence for part in plan.parts
                           if part.drafts and part.sequence.issued_tokens == part.sequence.target)
    for sequence in finishing:
        if not sequence.over:
            events.append(scheduler.end(sequence, "finished", now_ns, "length"))
    for sequence_id in stopped:
        if sequence_id in scheduler.sequences:
            events.append(scheduler.end(scheduler.sequences[sequence_id], "finished", now_ns, "stop"))
    return tuple(events)


def _complete_part(scheduler: "Scheduler", part: Part, now_ns: int, events: list[Event], came: int) -> None:
    sequence, reached = part.sequence, part.start + part.count
    if part.drafts:
        ahead.settle(scheduler, part, came)
        reached = sequence.computed_tokens
    if sequence.shareable and sequence.status == "running" and sequence.computed >= reached:
        scheduler.memory.register(sequence, reached)
    if not part.emits:
        return
    sequence.generated_tokens += came
    for _ in range(came):
        sequence.emit_at(now_ns)
    if sequence.first_token_ns is None:
        sequence.first_token_ns = now_ns
        events.append(Event(kind="first token", sequence_id=sequence.id, at_ns=now_ns))
    if sequence.status == "handing over":
        del scheduler.running[sequence.serial]
        scheduler.handing[sequence.serial] = sequence
        events.append(Event(kind="handed over", sequence_id=sequence.id, at_ns=now_ns))


def _came(plan: StepPlan, tokens: Mapping[str, int | tuple[int, ...]] | None, accepted: Mapping[str, int]) -> dict[str, int]:
    """How many tokens came for each part with guesses, by id."""
    found = {}
    for part in plan.parts:
        if part.drafts and not part.sequence.over:
            name = part.sequence.id
            given = tokens.get(name, ()) if tokens is not None else ()
            came = 1 + accepted.get(name, 0) if tokens is None else 1 if isinstance(given, int) else len(given)
            if not 1 <= came <= 1 + part.drafts:
                raise ValueError(f"{came} tokens for {name}, whose step gives from 1 to {1 + part.drafts}")
            found[name] = came
    return found


def _take_tokens(plan: StepPlan, tokens: Mapping[str, int | tuple[int, ...]], came: Mapping[str, int]) -> None:
    emitting = [slot.sequence for slot in plan.decodes] + [part.sequence for part in plan.parts if part.emits]
    missing = [sequence.id for sequence in emitting if not sequence.over and sequence.id not in tokens]
    if missing:
        raise ValueError(f"no token for {', '.join(missing)}, for whom this step produced one")
    taken = [(sequence, tokens[sequence.id]) for sequence in emitting if not sequence.over]
    taken = [(sequence, (given,) if isinstance(given, int) else given) for sequence, given in taken]
    wrong = [sequence.id for sequence, given in taken if len(given) != came.get(sequence.id, 1)]
    if wrong:
        raise ValueError(f"not one token for {', '.join(wrong)}, for whom nothing was guessed")
    for sequence, given in taken:
        sequence.tokens.extend(given)
