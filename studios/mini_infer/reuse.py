"""What every prompt found in the prefix cache, and why the rest was computed again."""

from dataclasses import dataclass

from pycore.scenes.conversations import Conversation, Reuse
from pycore.scenes.film import Text
from studios.explain import help_field, plain
from studios.marks import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One prompt."""

    sequence: str = help_field("its name")
    text: str = help_field("its tokens")
    answer: str = help_field("what it was answered")
    hit: str = help_field("width of what was found, as a percentage of the longest prompt")
    ragged: str = help_field("width of what was shared and could not be taken")
    lost: str = help_field("width of what was shared and no longer there")
    whole: str = help_field("width of the prompt")
    says: str = help_field("the same in words")


def found(conversation: Conversation) -> tuple[Found, ...]:
    """A row a prompt."""
    texts = {one.sequence: one for one in conversation.film.texts}
    most = max(one.prompt for one in conversation.reuse)
    return tuple(row(one, texts[one.sequence], most) for one in conversation.reuse)


def row(one: Reuse, text: Text, most: int) -> Found:
    """One prompt; the widths are those of bars that lie upon each other from the left."""
    return Found(sequence=one.sequence, text=plain(" ".join(text.prompt), 200), answer=plain(" ".join(text.output), 120),
                 hit=percent(one.hit, most), lost=percent(one.hit + one.lost, most), whole=percent(one.prompt, most),
                 ragged=percent(one.hit + one.lost + one.ragged, most), says=says(one))


def says(one: Reuse) -> str:
    """'16 of 20 found, 3 shared but not to the end of a block'."""
    said = f"{one.hit:,} of {one.prompt:,} tokens found"
    said += f"; {one.lost:,} shared, but no longer there" if one.lost else ""
    return said + (f"; {one.ragged:,} shared, but not to the end of a block" if one.ragged else "")
