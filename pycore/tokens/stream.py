"""Texts too long to hold: counted part by part, cut only where the count of the parts is the count of the whole.

Such a joint is a space after anything else, or the end of a word before a line end or plain punctuation: no pattern of
`patterns` has a piece that goes on from there, and none looks further ahead. The character before must be one that
normalisation leaves as it is, for else it could end as a mark, and the next piece begin with it.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pycore.errors import InputError

PART = 1 << 16
"""Characters gathered before a part is counted."""
LONGEST = 1 << 21
"""Characters without a joint that are still held: merging takes some 300 bytes for each."""
PUNCTUATION = ",.;:!?…。，、；：！？．」』）،؛؟۔।॥།༎་၊။។៕៖፡።፣፤፥፦፧"
"""Ends of sentences and clauses, in the scripts of the atlas. No kana's dot: DeepSeek's pattern counts it as a letter."""
NO_JOINT = f"{LONGEST:,} characters without a space or line end after a word cannot be cut into parts that are counted alone"
UNKNOWN_JOINTS = f"where a tokenizer.json lets a text be cut into parts is not known; accepted: up to {LONGEST:,} characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joints:
    """Where a text may be cut: the empty matches of a pattern, after a character that NFKC does not change."""

    pattern: str

    def last(self, text: str) -> int | None:
        """The last joint of a text, looked for from its end in ever larger steps."""
        found, size = re.compile(self.pattern), 256
        while True:
            start = max(len(text) - size, 0)
            for match in reversed(list(found.finditer(text, start + 1))):  # a lookbehind sees one character before
                place = match.start()
                if unicodedata.normalize("NFKC", text[place - 1]) == text[place - 1]:
                    return place
            if not start:
                return None
            size *= 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How far a long text is: characters taken, tokens of those counted so far."""

    characters: int
    tokens: int


BYTE_PAIRS = Joints(pattern=rf"(?<=\S)(?= )|(?<=[^\W\d_])(?=[\n\r\t{PUNCTUATION}])")
"""Of byte-level tokenizers that cut by one of `patterns`."""
GEMMA = Joints(pattern=r"(?<=[^\s>\u2581])(?=[ \n])")
"""Of Gemma, which has no pattern; no piece of it has a blank after another character but `> </`."""


def counted(count: Callable[[str], int], joints: Joints | None, chunks: Iterable[str]) -> Iterator[Counted]:
    """Count a text that comes in chunks; the last value is of the whole. `joints` None: where it may be cut is not known.

    Raises InputError where more than `LONGEST` characters have no joint.
    """
    held: list[str] = []
    size, wanted, characters, tokens = 0, PART, 0, 0
    for chunk in chunks:
        for start in range(0, len(chunk), PART):
            held.append(chunk[start:start + PART])
            size += len(held[-1])
            if size < wanted:
                continue
            text = "".join(held)
            place = joints.last(text) if joints else None
            if place is None:
                wanted = min(2 * size, LONGEST + 1)
                if size > LONGEST:
                    raise InputError("text", text[:20], NO_JOINT if joints else UNKNOWN_JOINTS)
                held = [text]
                continue
            tokens, characters = tokens + count(text[:place]), characters + place
            held, size, wanted = [text[place:]], len(text) - place, PART + len(text) - place
            yield Counted(characters=characters, tokens=tokens)
    rest = "".join(held)
    yield Counted(characters=characters + len(rest), tokens=tokens + count(rest))
