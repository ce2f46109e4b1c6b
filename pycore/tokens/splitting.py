"""The ways of `tokenizers` to cut a text before merging, one after the other, each on what the one before left.

A cut is a function: a text to its parts, which joined are the text.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from pycore.errors import InputError
from pycore.tokens.patterns import GPT2, Cutter

Cut = Callable[[str], list[str]]
BEHAVIOURS = ("Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
GPT2_BYTE_LEVEL = GPT2


def split(pattern: str | Cutter, behaviour: str, invert: bool) -> Cut:
    """Cut at the matches of a text or a pattern. `behaviour`, in any spelling, says where the match goes.

    Raises InputError for 'Removed' (text would be lost) and for one that is not known.
    """
    known = {name.lower(): name for name in BEHAVIOURS}
    name = known.get(behaviour.lower().replace("_", ""))
    if name is None:
        raise InputError("behavior", behaviour, f"a Split is understood that is one of {', '.join(BEHAVIOURS)}")

    def spans(text: str) -> list[tuple[int, int]]:
        found = re.finditer(re.escape(pattern), text) if isinstance(pattern, str) else pattern.fit(text).finditer(text)
        return [match.span() for match in found if match.end() > match.start()]

    return lambda text: behaving(text, marked(spans(text), len(text), invert), name)


def marked(spans: Sequence[tuple[int, int]], length: int, invert: bool) -> list[tuple[int, int, bool]]:
    """(start, end, is a match) of all parts of a text."""
    ends = [0, *(end for span in spans for end in span), length]
    return [(start, end, bool(index % 2) != invert) for index, (start, end) in enumerate(pairwise(ends)) if end > start]


def behaving(text: str, parts: list[tuple[int, int, bool]], name: str) -> list[str]:
    """The parts put together as a behaviour wants: a match alone, or with its neighbour on one side."""
    kept: list[list[int]] = []
    previous = False
    for start, end, match in parts:
        joins = bool(kept) and (
            name == "Contiguous" and match == previous
            or name == "MergedWithPrevious" and match and not previous
            or name == "MergedWithNext" and previous and not match)
        if joins:
            kept[-1][1] = end
        else:
            kept.append([start, end])
        previous = match
    return [text[start:end] for start, end in kept]


def chain(cuts: Sequence[Cut]) -> Cut:
    """One cut after the other."""
    if len(cuts) == 1:
        return cuts[0]

    def cut(text: str) -> list[str]:
        parts = [text] if text else []
        for one in cuts:
            parts = [piece for part in parts for piece in one(part)]
        return parts

    return cut


def byte_level() -> Cut:
    """GPT-2's own pattern, what `ByteLevel` cuts by unless told not to."""
    return Cutter(GPT2_BYTE_LEVEL).isolate


def digits(individual: bool) -> Cut:
    """Runs of numerals apart, or each alone."""
    return split(Cutter(r"\p{N}" if individual else r"\p{N}+"), "Isolated", False)


def before_mark(mark: str) -> Cut:
    """Words with the mark that stands before them."""
    return split(mark, "MergedWithNext", False)
