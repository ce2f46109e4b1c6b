"""One frame of a film and the way to the others: what happened, where in the film it is, what always holds."""

from dataclasses import dataclass
from typing import Any

from pycore.scenes.film import Film, Frame
from studios.explain import help_field, plain
from studios.mini_infer.links import also

AROUND = 7  # frames in the list of what happened
WIDE, HIGH = 1000, 34  # units of the strip


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A link to another frame."""

    text: str = help_field("on the button")
    title: str = help_field("what it does, with its key")
    href: str = help_field("the question with that frame")
    still: bool = help_field("whether it leads nowhere from here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A frame near the one shown."""

    number: int = help_field("its number, from 1")
    what: str = help_field("what happened in it")
    href: str = help_field("the question with that frame")
    here: bool = help_field("whether it is the one shown")
    broken: bool = help_field("whether something that must hold did not")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The pool over all frames as a skyline, below it the frames where a law is broken."""

    used: str = help_field("path of the blocks in use")
    cached: str = help_field("path of those and the cached ones")
    broken: str = help_field("path of the frames where a law is broken, or ''")
    x: str = help_field("left edge of the frame shown, as a percentage")
    width: str = help_field("its width")
    says: str = help_field("the drawing in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """The frame that is shown."""

    frame: int = help_field("its number, from 1")
    last: int = help_field("number of the last frame")
    what: str = help_field("what happened in it, one sentence")
    lines: tuple[str, ...] = help_field("what else did")
    moves: tuple[Move, ...] = help_field("first, undo, on, last")
    around: tuple[Near, ...] = help_field("the frames around it")
    strip: Strip = help_field("the pool over all frames")


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """Something that must hold in every frame."""

    name: str = help_field("its name")
    law: str = help_field("what is equal to what")
    holds: bool = help_field("whether it does in this frame")
    says: str = help_field("the figures of this frame, or the fault")


def player(query: Any, film: Film) -> Player:
    """The frame that the question asks for."""
    frame, last = film.frame(query.frame), len(film.frames)
    return Player(frame=frame.number, last=last, what=plain(frame.what), lines=tuple(map(plain, frame.lines)),
                  moves=moves(query, frame.number, last), strip=strip(film, frame.number),
                  around=around(query, frame.number, [(one.what, not one.holds) for one in film.frames]))


def stepper(query: Any, here: int, steps: list[str], film: Film) -> Player:
    """The same where a sentence a step is said elsewhere."""
    return Player(frame=here, last=len(steps), what=steps[here - 1], lines=(), moves=moves(query, here, len(steps)),
                  around=around(query, here, [(one, False) for one in steps]), strip=strip(film, here))


def moves(query: Any, here: int, last: int) -> tuple[Move, ...]:
    """First, undo, on, last."""
    targets = (("« First", "First frame (Home)", 1), ("↶ Undo", "One frame back (left arrow)", max(here - 1, 1)),
               ("Step ›", "One frame on (right arrow)", min(here + 1, last)), ("Last »", "Last frame (End)", last))
    return tuple(Move(text=text, title=title, href=also(query, frame=target), still=target == here)
                 for text, title, target in targets)


def around(query: Any, here: int, frames: list[tuple[str, bool]]) -> tuple[Near, ...]:
    """As many frames before as after, where there are any: always the same number of lines. `frames`: (what, broken)."""
    first = max(1, min(here - AROUND // 2, len(frames) - AROUND + 1))
    return tuple(Near(number=number, what=plain(frames[number - 1][0], 160), href=also(query, frame=number),
                      here=number == here, broken=frames[number - 1][1])
                 for number in range(first, min(first + AROUND, len(frames) + 1)))


def strip(film: Film, here: int) -> Strip:
    """The pool over the film; frames beyond `WIDE` are drawn on top of each other."""
    count, blocks = len(film.frames), max(film.blocks, 1)
    used = [one.used for one in film.frames]
    kept = [one.used + one.cached for one in film.frames]
    broken = "".join(f"M{WIDE * at // count} {HIGH}h{max(WIDE // count, 3)}v6h-{max(WIDE // count, 3)}z"
                     for at, one in enumerate(film.frames) if not one.holds)
    return Strip(used=skyline(used, blocks), cached=skyline(kept, blocks), broken=broken,
                 x=f"{100 * (here - 1) / count:.2f}%", width=f"{max(100 / count, 0.4):.2f}%",
                 says=f"Blocks in use over {count:,} frames: at most {max(used):,} of {film.blocks:,}")


def skyline(counts: list[int], most: int) -> str:
    """A filled step curve of one count a frame, as path data on a field of WIDE by HIGH."""
    steps, high = [], -1
    for at, count in enumerate(counts):
        y = HIGH - HIGH * count // most
        if y != high:
            steps.append(f"H{WIDE * at // len(counts)}V{y}")
            high = y
    return f"M0 {HIGH}{''.join(steps)}H{WIDE}V{HIGH}z"


def laws(frame: Frame) -> tuple[Law, ...]:
    """What must hold, as it stands in a frame; what is broken first."""
    found = [Law(name=one.name, law=one.law, holds=one.holds, says=plain(one.says)) for one in frame.invariants]
    return tuple(sorted(found, key=lambda one: one.holds))
