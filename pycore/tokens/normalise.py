"""What is done to a text before it is cut: repair of surrogates, NFC, NFKC; and where each character came from.

Python's normalisation follows its own Unicode version (14 in Python 3.11, 16 in 3.14). Characters that `tokenizers`
leaves alone because its tables are older (the class 'frozen', all of them newer than Unicode 9) are left alone here too:
what remains is fixed for good by Unicode's stability policy, so that every Python gives the same text.
"""

import functools
import re
import unicodedata

from pycore.tokens import ranges

SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
Spans = list[tuple[int, int]]


def repaired(text: str) -> str:
    """Pairs of surrogates as the character they stand for, lone ones as U+FFFD, as tiktoken does."""
    return SURROGATES.sub(joined, text) if not text.isascii() and SURROGATES.search(text) else text


def joined(match: re.Match[str]) -> str:
    """One pair, or a lone surrogate."""
    found = match[0]
    return found.encode("utf-16", "surrogatepass").decode("utf-16") if len(found) == 2 else "\ufffd"


@functools.cache
def frozen() -> re.Pattern[str]:
    """Runs of characters that stay as they are."""
    return re.compile(f"({ranges.spelled(ranges.shipped()['frozen'])}+)")


@functools.cache
def clusters() -> re.Pattern[str]:
    """Parts of a text that normalise by themselves: one character and those after it that may join it."""
    joining = ranges.shipped()["joining"]
    joins, others = ranges.spelled(joining), ranges.spelled(ranges.complement(joining))
    return re.compile(f"{others}?{joins}+|{ranges.spelled(ranges.EVERY)}")


def normalised(text: str, form: str | None) -> str:
    """The text in a form ('NFC', 'NFKC'; None: only surrogates repaired)."""
    text = repaired(text)
    if form is None or text.isascii():
        return text
    if not frozen().search(text):
        return unicodedata.normalize(form, text)
    return "".join(part if place % 2 else unicodedata.normalize(form, part)
                   for place, part in enumerate(frozen().split(text)))


def aligned(text: str, form: str | None) -> tuple[str, Spans | None]:
    """(the normalised text, for each of its characters the (start, end) in `text` that it came from).

    None in place of the spans means that nothing moved: character i is character i.
    """
    whole = normalised(text, form)
    if whole == text:
        return whole, None
    parts, spans, start = [], [], 0
    for match in re.finditer(f"{SURROGATES.pattern}|{clusters().pattern}", text):
        part = normalised(match[0], form)
        end = start + len(match[0])
        parts.append(part)
        spans += [(start + index, start + index + 1) for index in range(len(part))] if part == match[0] \
            else [(start, end)] * len(part)
        start = end
    if "".join(parts) != whole:  # surrogates that join with what follows: rare enough to give up on detail
        return whole, [(0, len(text))] * len(whole)
    return whole, spans
