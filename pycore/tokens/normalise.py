"""What is done to a text before it is cut: repair of surrogates, NFC, NFKC; and where each character came from.

Python's normalisation follows its own Unicode version (14 in Python 3.11, 16 in 3.14). Characters that `tokenizers`
leaves alone because its tables are older (the class 'frozen', all of them newer than Unicode 9) are left alone here too:
what remains is fixed for good by Unicode's stability policy, so that every Python gives the same text.
"""

import functools
import re
import unicodedata

from pycore.tokens import ranges
from pycore.tokens.patterns import ASTRAL

SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
Spans = list[tuple[int, int]]


def repaired(text: str) -> str:
    """Pairs of surrogates as the character they stand for, lone ones as U+FFFD, as tiktoken does."""
    try:
        text.encode()  # far faster than to search
    except UnicodeEncodeError:
        return SURROGATES.sub(joined, text)
    return text


def joined(match: re.Match[str]) -> str:
    """One pair, or a lone surrogate."""
    found = match[0]
    return found.encode("utf-16", "surrogatepass").decode("utf-16") if len(found) == 2 else "\ufffd"


def furthest(text: str) -> int:
    """Up to where a class must reach for a text: `re` walks the ranges beyond the first plane one by one."""
    return ranges.LAST if ASTRAL.search(text) else 0xFFFF


@functools.cache
def frozen(last: int) -> re.Pattern[str]:
    """Runs of characters that stay as they are."""
    return re.compile(f"({ranges.spelled(ranges.shipped()['frozen'], last)}+)")


@functools.cache
def clusters(last: int) -> re.Pattern[str]:
    """Parts of a text that normalise by themselves: one character and those after it that may join it."""
    joining = ranges.shipped()["joining"]
    joins, others = ranges.spelled(joining, last), ranges.spelled(ranges.complement(joining), last)
    return re.compile(f"{SURROGATES.pattern}|{others}?{joins}+|{ranges.spelled(ranges.EVERY)}")


def normalised(text: str, form: str | None) -> str:
    """The text in a form ('NFC', 'NFKC'; None: only surrogates repaired)."""
    text = repaired(text)
    if form is None or text.isascii() or unicodedata.is_normalized(form, text):
        return text
    return "".join(part if place % 2 else unicodedata.normalize(form, part)
                   for place, part in enumerate(frozen(furthest(text)).split(text)))


def aligned(text: str, form: str | None) -> tuple[str, Spans | None]:
    """(the normalised text, for each of its characters the (start, end) in `text` that it came from).

    None in place of the spans means that nothing moved: character i is character i.
    """
    whole = normalised(text, form)
    if whole == text:
        return whole, None
    parts, spans, start = [], [], 0
    for match in clusters(furthest(text)).finditer(text):
        part = normalised(match[0], form)
        end = start + len(match[0])
        parts.append(part)
        spans += [(start + index, start + index + 1) for index in range(len(part))] if part == match[0] \
            else [(start, end)] * len(part)
        start = end
    if "".join(parts) != whole:  # surrogates that join with what follows: rare enough to give up on detail
        return whole, [(0, len(text))] * len(whole)
    return whole, spans
