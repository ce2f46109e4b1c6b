"""The bug museum: which fault is shown, what each request got from the right and from the broken engine, and who noticed."""

from dataclasses import dataclass
from typing import Any

from pycore.scenes.faults import FAULTS
from pycore.scenes.film import Film
from pycore.scenes.museum import Exhibit, Outputs
from studios.explain import help_field, plain
from studios.mini_infer.links import Choice, also


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one request got from either engine, cut where they part."""

    sequence: str = help_field("its name")
    prompt: str = help_field("what it asked")
    same: str = help_field("the tokens that both gave")
    right: str = help_field("how the right engine goes on")
    wrong: str = help_field("how the broken one does")
    differs: bool = help_field("whether they part")
    says: str = help_field("where they part, in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Museum:
    """The exhibit."""

    faults: tuple[Choice, ...] = help_field("every fault")
    engines: tuple[Choice, ...] = help_field("broken and repaired")
    title: str = help_field("the fault's name")
    right: str = help_field("what a right engine does")
    seen: str = help_field("who had it")
    sides: tuple[Side, ...] = help_field("the outputs")
    caught: Choice | None = help_field("the first frame where a law fails, and which")
    diverges: Choice | None = help_field("the first frame with a wrong token, or None where none is wrong")
    breaks: tuple[Choice, ...] = help_field("every other law that fails, with its first frame")
    pools: bool = help_field("whether the two engines fill their pools differently")


def museum(query: Any, exhibit: Exhibit) -> Museum:
    """The exhibit as the page shows it."""
    fault = exhibit.fault
    return Museum(
        faults=tuple(Choice(text=one.title, more=one.what, href=also(query, fault=name, broken=True, frame=0),
                            chosen=name == fault.name) for name, one in FAULTS.items()),
        engines=(Choice(text="broken", more="the engine with the fault", href=also(query, broken=True), chosen=query.broken),
                 Choice(text="repaired", more="the same requests on the right engine", href=also(query, broken=False),
                        chosen=not query.broken)),
        title=fault.title, right=fault.right, seen=fault.seen, sides=tuple(map(side, exhibit.outputs)),
        caught=None if exhibit.law is None else frame_of(query, exhibit.caught, exhibit.law.name, exhibit.law.says),
        diverges=None if exhibit.diverges is None else frame_of(query, exhibit.diverges, "first wrong token", ""),
        breaks=tuple(frame_of(query, number, name, "") for name, number in exhibit.breaks
                     if exhibit.law is None or name != exhibit.law.name),
        pools=filling(exhibit.right) != filling(exhibit.wrong))


def filling(film: Film) -> tuple[int, ...]:
    """Blocks in use, frame by frame."""
    return tuple(frame.used for frame in film.frames)


def frame_of(query: Any, number: int, text: str, more: str) -> Choice:
    """A link to a frame of the broken engine."""
    return Choice(text=f"{plain(text)}, frame {number}", more=plain(more), href=also(query, frame=number, broken=True),
                  chosen=query.broken and query.frame == number)


def side(one: Outputs) -> Side:
    """One request's two outputs."""
    at = len(one.right) if one.differs_at is None else one.differs_at
    if one.differs_at is None:
        says = "the same from both"
    elif at >= len(one.wrong):
        says = f"stands still after {at} of {len(one.right)} tokens"
    else:
        says = f"another text from token {at + 1} on"
    return Side(sequence=plain(one.sequence, 40), prompt=words(one.prompt), same=words(one.right[:at]), says=says,
                right=words(one.right[at:]), wrong=words(one.wrong[at:]), differs=one.differs_at is not None)


def words(tokens: tuple[str, ...]) -> str:
    return plain(" ".join(tokens), 300)
