"""What a tokenizer.json does to a text before merging: its normalizer and pre_tokenizer, read or refused by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pycore.errors import InputError
from pycore.tokens import splitting
from pycore.tokens.normalise import aligned
from pycore.tokens.patterns import Cutter
from pycore.tokens.splitting import Cut

FIELD = "tokenizers"
MARK = "\u2581"
Spans = list[tuple[int, int]]
Step = Callable[[str], tuple[str, Spans | None]]
"""A text to (what it becomes, for each character of that where it came from; None: character for character)."""
ALWAYS, FIRST, NEVER = "always", "first", "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """A character put before a text that does not begin with it. `scheme`: before each part between added tokens, the first
    part only, or none. The mark U+2581 stands for every space besides.
    """

    mark: str
    scheme: str


def read_steps(table: dict | None, name: str) -> tuple[Step, ...]:
    """A normalizer. Raises InputError naming one that is not understood."""
    return tuple(read_step(one, name) for one in flat(table, "normalizer", "normalizers", name))


def read_step(table: dict, name: str) -> Step:
    """One normalizer. Raises InputError."""
    kind = table.get("type")
    if kind in ("NFC", "NFKC", "NFD", "NFKD"):
        return lambda text: aligned(text, kind)
    if kind == "Prepend" and isinstance(table.get("prepend"), str):
        return prepending(table["prepend"])
    found = table.get("pattern")
    pattern, content = found.get("String") if isinstance(found, dict) else None, table.get("content")
    if kind == "Replace" and isinstance(pattern, str) and isinstance(content, str) and len(pattern) == len(content) == 1:
        return lambda text: (text.replace(pattern, content), None)
    detail = " of more than one character by one" if kind == "Replace" else ""
    raise InputError(FIELD, name, f"its normalizer {kind}{detail} is not understood; NFC, NFKC, NFD, NFKD, Prepend, and "
                                  "Replace of one character by one are")


def prepending(mark: str) -> Step:
    """A text with a mark before it; an empty one stays empty."""
    def step(text: str) -> tuple[str, Spans | None]:
        if not text:
            return text, None
        return mark + text, [(0, 0)] * len(mark) + [(place, place + 1) for place in range(len(text))]

    return step


def read_cuts(table: dict | None, name: str) -> tuple[Cut | None, bool, Prefix | None]:
    """(how it cuts, None for not at all; whether it is byte-level; the prefix it puts). Raises InputError."""
    cuts, byte_level, prefix = [], False, None
    for place, one in enumerate(flat(table, "pre_tokenizer", "pretokenizers", name)):
        kind = one.get("type")
        if kind == "ByteLevel":
            byte_level = True
            if one.get("use_regex", True):
                cuts.append(splitting.byte_level())
            mark = " " if one.get("add_prefix_space", True) else ""
        elif kind == "Metaspace":
            mark = one.get("replacement", MARK)
            if mark != MARK:
                raise InputError(FIELD, name, f"its Metaspace replaces spaces by {mark!r}; {MARK!r} is understood")
            cuts.append(splitting.before_mark(mark) if one.get("split", True) else lambda text: [text])
        elif kind == "Split":
            cuts.append(read_split(one, name))
            continue
        elif kind == "Digits":
            cuts.append(splitting.digits(bool(one.get("individual_digits"))))
            continue
        else:
            raise InputError(FIELD, name, f"its pre_tokenizer {kind} is not understood; Split, ByteLevel, Digits and "
                                          "Metaspace are")
        scheme = one.get("prepend_scheme", ALWAYS if one.get("add_prefix_space", True) else NEVER)
        if mark:
            if place:
                raise InputError(FIELD, name, f"its {kind} puts {mark!r} before parts cut by others; that is not understood")
            prefix = Prefix(mark=mark, scheme=scheme)
    return (splitting.chain(cuts) if cuts else None), byte_level, prefix


def flat(table: Any, part: str, members: str, name: str) -> list[dict]:
    """The members of a sequence, in order, or the one that stands for all; `part`, `members`: as the file calls them.

    Raises InputError where it is of another shape.
    """
    waiting, found = [] if table is None else [table], []
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict):
            raise InputError(FIELD, name, f"its {part} holds {str(one)[:40]!r} where an object should be")
        if one.get("type") != "Sequence":
            found.append(one)
        elif isinstance(one.get(members), list):
            waiting += reversed(one[members])
        else:
            raise InputError(FIELD, name, f"its {part} is a Sequence without a list of {members}")
    return found


def read_split(table: dict, name: str) -> Cut:
    """A Split by a text or a pattern. Raises InputError."""
    pattern = table.get("pattern")
    text, regex = (pattern.get(key) if isinstance(pattern, dict) else None for key in ("String", "Regex"))
    if isinstance(regex, str):
        what: str | Cutter = Cutter(regex)
        what.compile(0x7F)  # so that a faulty one is told now, not at the first text
    elif isinstance(text, str) and text:
        what = text
    else:
        raise InputError(FIELD, name, "its Split has neither a String nor a Regex as its pattern")
    return splitting.split(what, str(table.get("behavior")), bool(table.get("invert")))
