"""Speculation in the plan: a decoding sequence computes its last token and guesses after it, and keeps what was right.

    known tokens  t0 … tn      computed t0 … tn-1
    a step        tn g1 … gk   k guesses, verified in the same pass (Leviathan et al., arXiv 2211.17192)
    came out      g1 … gj x    1 to k + 1 tokens: the guesses accepted, and one of the model's own
    computed      t0 … gj      the rest is rolled back: its positions count as never computed, its blocks are free again

How many tokens come is known only when the step has completed, so such sequences do not stand in the decode set, which
moves all its members by one token a step; here each is a part of its own. Guesses take what a step has left when prompts
and everybody's next token have had theirs, in tokens and in blocks: they preempt nobody and hold up nobody's admission.
Until a step completes, nothing is counted as computed but the token that was known, so that what a guess wrote can
neither be found in the prefix cache nor be moved or shared.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pycore.serving.plan import Part
from pycore.serving.sequence import Sequence
from pycore.serving.shortage import extend

if TYPE_CHECKING:
    from pycore.serving.scheduler import Scheduler
    from pycore.serving.step import Step


def decode(step: "Step") -> None:
    """The next token of everyone who decodes, as far as the room goes; who finds no block is preempted."""
    scheduler, speculating = step.scheduler, step.scheduler.speculating
    if step.decoded or not speculating:
        return
    members = tuple(speculating.values())
    served, step.held = members[:max(step.room, 0)], members[max(step.room, 0):]
    for sequence in sorted(served, key=lambda sequence: sequence.admission):
        if sequence.serial in speculating:  # else preempted for one before it
            need = step.pool.blocks_for(sequence.computed_tokens + 1) - len(sequence.block_table)
            if extend(step, sequence, need):
                scheduler.memory.forked.pop(sequence.serial, None)
    for sequence in served:
        if sequence.serial in speculating:
            _next_token(step, sequence)


def _next_token(step: "Step", sequence: Sequence) -> None:
    start = sequence.computed_tokens
    step.parts += (Part(sequence, start, 1, decode=True, emits=True),)
    step.context, step.longest, step.room = step.context + start + 1, max(step.longest, start + 1), step.room - 1
    step.decoded = True
    sequence.advance(1)
    sequence.issued_tokens += 1
    if sequence.issued_tokens == sequence.target:
        step.finishing += (sequence,)


def guess(step: "Step", drafts: Mapping[str, int] | None) -> None:
    """Give what the step has left to guesses, in the order of the decodes: at most `drafts` of them by id, where given.

    Never so many that accepting all would pass a sequence's last token; never a block of the watermark.
    """
    speculating, pool = step.scheduler.speculating, step.pool
    for part in step.parts:
        sequence = part.sequence
        if sequence.serial not in speculating:
            continue
        most = step.limits.draft_tokens if drafts is None else min(drafts.get(sequence.id, 0), step.limits.draft_tokens)
        blocks = len(sequence.block_table) + max(0, pool.free - pool.watermark_blocks)
        count = min(most, step.room, sequence.target - sequence.issued_tokens,
                    blocks * pool.block_size - sequence.computed_tokens)
        if count > 0:
            need = pool.blocks_for(sequence.computed_tokens + count) - len(sequence.block_table)
            sequence.block_table += pool.take(need)
            sequence.drafted = part.drafts = count
            part.count += count
            step.room -= count


def settle(scheduler: "Scheduler", part: Part, came: int) -> None:
    """Of a part with guesses `came` tokens came out: count them, and give back the blocks of what was rejected."""
    sequence, accepted = part.sequence, came - 1
    sequence.computed_tokens += accepted
    sequence.issued_tokens += accepted
    sequence.drafted = 0
    scheduler.memory.trim(sequence, sequence.computed_tokens)
