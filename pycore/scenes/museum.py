"""Scene (d): the same requests on the right engine and on one with a fault; where they part, and which law says so."""

import functools
from dataclasses import dataclass, replace

from pycore.scenes.faults import FAULTS, Fault
from pycore.scenes.film import Film, Frame, Invariant
from pycore.scenes.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What one request got from either engine. `differs_at`: index of the first token that differs, None where none does.

    A shorter output of the broken engine (it came to a standstill) differs where it ends.
    """

    sequence: str
    prompt: tuple[str, ...]
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    differs_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One fault, shown.

    caught     first frame of the broken engine where a law fails, and that law (`law`)
    diverges   first frame of the broken engine where a token is not the right one; None where it only stands still
    breaks     every law that fails somewhere, by name, with the first frame where it does
    """

    fault: Fault
    right: Film
    wrong: Film
    outputs: tuple[Outputs, ...]
    caught: int | None
    law: Invariant | None
    diverges: int | None
    breaks: tuple[tuple[str, int], ...]


@functools.lru_cache(maxsize=16)
def exhibit(name: str) -> Exhibit:
    """The fault of that name, on its own requests."""
    fault = FAULTS[name]
    right, wrong = filmed(fault, Stage(fault.setting), broken=False), filmed(fault, fault.stage(fault.setting), broken=True)
    said = {text.sequence: text for text in wrong.texts}
    outputs = tuple(Outputs(sequence=text.sequence, prompt=text.prompt, right=text.output, wrong=said[text.sequence].output,
                            differs_at=parting(text.output, said[text.sequence].output)) for text in right.texts)
    first = wrong.first_broken()
    right = replace(right, opens=min(wrong.opens, len(right.frames)))  # both sides open at the same picture
    breaks: dict[str, int] = {}
    for frame in wrong.frames:
        for law in frame.invariants:
            if not law.holds:
                breaks.setdefault(law.name, frame.number)
    return Exhibit(fault=fault, right=right, wrong=wrong, outputs=outputs, caught=first[0].number if first else None,
                   law=first[1] if first else None, diverges=next((
                       frame.number for frame in wrong.frames if differs(frame, outputs)), None),
                   breaks=tuple(breaks.items()))


def filmed(fault: Fault, stage: Stage, *, broken: bool) -> Film:
    """The fault's requests on a stage. An engine that notices its own fault stops there, and the film says so."""
    notes: tuple[str, ...] = ()
    try:
        fault.play(stage, broken)
    except (AssertionError, LookupError) as noticed:
        notes = (f"The control plane stopped here by itself: {noticed}",)
    left = sorted(stage.scheduler.sequences)
    notes += tuple(f"{name} never comes to its end" for name in left)
    first = next((frame.number for frame in stage.frames if not frame.holds), 0)
    return stage.film(opens=first, notes=notes)


def parting(right: tuple[str, ...], wrong: tuple[str, ...]) -> int | None:
    """Index of the first token that differs."""
    at = next((at for at, (one, other) in enumerate(zip(right, wrong, strict=False)) if one != other), None)
    return min(len(right), len(wrong)) if at is None and len(right) != len(wrong) else at


def differs(frame: Frame, outputs: tuple[Outputs, ...]) -> bool:
    """Whether a token has come out by this frame that is not the right one."""
    right = {one.sequence: one.prompt + one.right for one in outputs}
    return any(table.tokens != right[table.sequence][:len(table.tokens)] for table in frame.tables)
