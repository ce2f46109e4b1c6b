"""Forks: a sequence that starts as a copy of another and shares its blocks until one of them writes."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.serving.sequence import Sequence

if TYPE_CHECKING:
    from pycore.serving.scheduler import Scheduler


def fork(scheduler: "Scheduler", sequence_id: str, new_id: str, last_token: int | None = None) -> Sequence:
    """See Scheduler.fork."""
    parent = scheduler.sequences.get(sequence_id)
    if parent is None or scheduler.in_flight or parent.status == "handing over" or parent.serial in scheduler.draining:
        raise InputError("sequence_id", sequence_id, "an unfinished sequence, between two steps")
    if new_id in scheduler.sequences:
        raise InputError("new_id", new_id, "an id that no unfinished request has")
    if last_token is not None and not parent.tokens:
        raise InputError("last_token", last_token, "a token in place of one that came out")
    child = _twin(scheduler, parent, new_id)
    if last_token is not None:
        child.tokens[-1] = last_token  # it is known, and nothing has been computed of it: no block holds it
    scheduler.sequences[new_id] = child
    if parent.status == "running" and scheduler.seats > 0:
        _share_blocks(scheduler, parent, child)
    else:
        scheduler.wait(child)
    return child


def _twin(scheduler: "Scheduler", parent: Sequence, new_id: str) -> Sequence:
    """Everything known of the parent, nothing computed."""
    child = Sequence(replace(parent.request, id=new_id), scheduler.next_serial(), scheduler.decodes, parent.target)
    child.tokens, child.issued_tokens, child.generated_tokens = list(parent.tokens), parent.issued, parent.generated
    child.emissions, child.first_token_ns = list(parent.token_times_ns()), parent.first_token_ns
    child.cached_tokens, child.first_scheduled_ns = parent.cached_tokens, parent.first_scheduled_ns
    size = scheduler.pool.block_size
    full = parent.computed // size
    if full:
        parent.key(min(full, parent.registrable(parent.computed, size, private=True)) - 1, size)
    child.keys = parent.keys[:full]  # it finds again what they have in common
    return child


def _share_blocks(scheduler: "Scheduler", parent: Sequence, child: Sequence) -> None:
    child.computed_tokens, child.peak_computed = parent.computed, parent.peak_computed
    child.registered, child.block_table = parent.registered, list(parent.block_table)
    for block in child.block_table:
        scheduler.pool.hold(block)
    scheduler.take_seat(child)
    scheduler.memory.forked |= {parent.serial: parent, child.serial: child}
    if parent.serial in scheduler.prefilling:
        scheduler.prefilling[child.serial] = child
    else:
        scheduler.join(child)
