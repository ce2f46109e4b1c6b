r"""How texts are cut before any merging: the pre-tokenisers' patterns, and their translation to Python's `re`.

A pattern is written as its makers write it (Rust, Oniguruma): `\p{L}`, `\s`, `(?i:...)`. Python's `re` has no `\p` and
its `\s` differs, so classes are spelled out from `ranges`. Each pattern is compiled when first needed: for texts of ASCII,
for texts within the Basic Multilingual Plane, for all others. A class with ranges beyond that plane is walked range by
range by `re`, ten times slower: patterns that only ask for general categories read a character from beyond as one of the
same category within (`masked`).
"""

import functools
import re
from bisect import bisect_right
from itertools import pairwise

from pycore.errors import InputError
from pycore.tokens import ranges

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = CL100K.replace("{1,3}", "")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = "|".join((
    r"\p{N}{1,3}",
    r"\p{any-L-P-S&cjk}?\p{L+M&cjk}+", r"\p{P+S&cjk}+",
    r"\p{any-L-M-P-S&cjk}(?:\p{any-L-M-P-S&cjk}(?!\p{L+M&cjk}))*",
    r"[!-/:-@\[-`{-~][A-Za-z]+", r"[^\r\n\p{L+P+S+N+cjk}]?\p{L+M-cjk}+", r" ?\p{P+S-cjk}+[\r\n]*",
    r"\s*[\r\n]+", r"\s+(?![^\s\p{N+cjk}])", r"\s+",
    r"[^\s\p{L+M+N+P+S+cjk}](?:[^\s\p{L+M+N+P+S+cjk}](?!\p{L+M-cjk}))*"))
r"""DeepSeek cuts three times: out `\p{N}{1,3}`, out runs of `cjk`, then each part by a third pattern; what that leaves
unmatched stays a piece. Here it is one pattern: every class is kept within its part, so that a lookahead sees a part's
end as the end of the text, and the last alternative takes what is left.
"""
PATTERNS = {"o200k_base": O200K, "llama3": CL100K, "cl100k_base": CL100K, "qwen2.5": QWEN, "deepseek-v3": DEEPSEEK,
            "claude-legacy": GPT2}

ASTRAL = re.compile("[\U00010000-\U0010ffff]")
QUANTIFIER = re.compile(r"[*+?][+?]?|\{\d*,?\d*\}[+?]?")
PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)([^{}]*)\}|([A-Z]))")
CODE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))")
GROUP = re.compile(r"\(\?(?:i:|:|=|!|<=|<!|>)")
STAND_INS = {"Lu": "\u0100", "Ll": "\u0101", "Lt": "\u01c5", "Lm": "\u02b0", "Lo": "\u05d0", "M": "\u0301", "N": "\u00b2",
             "P": "\u00bf", "S": "\u00ac", "C": "\ue000"}
SHORT = {"s": "space", "d": "Nd", "w": "word"}
CONTROL = {"r": 13, "n": 10, "t": 9, "f": 12, "v": 11, "0": 0, "a": 7, "e": 27}


class Cutter:
    """A pattern, ready to cut texts. Raises InputError where it says something that is not understood here.

    `by_category`: beyond the first plane it asks for nothing but a character's general category.
    """

    def __init__(self, pattern: str, *, by_category: bool = False):
        self.pattern, self.by_category = pattern, by_category
        self.compiled: dict[int, re.Pattern[str]] = {}
        translated(pattern, 0x7F)

    def compile(self, last: int) -> re.Pattern[str]:
        """The pattern for texts whose characters go up to `last`. Raises InputError where it is none, as with ')' alone."""
        if last not in self.compiled:
            try:
                self.compiled[last] = re.compile(translated(self.pattern, last))
            except (re.error, OverflowError, RecursionError) as error:
                raise InputError("pattern", self.pattern[:60], f"is no pattern that can be used: {error}") from None
        return self.compiled[last]

    def fit(self, text: str) -> re.Pattern[str]:
        """The compiled pattern that suits a text."""
        if text.isascii():
            return self.compile(0x7F)
        return self.compile(ranges.LAST if ASTRAL.search(text) else 0xFFFF)

    def cut(self, text: str) -> list[str]:
        """The pieces that match, in order; of a text that the pattern covers they are all of it."""
        if self.by_category and not text.isascii() and ASTRAL.search(text):
            spans = map(re.Match.span, self.compile(0xFFFF).finditer(masked(text)))
            return [text[start:end] for start, end in spans]
        return self.fit(text).findall(text)

    def isolate(self, text: str) -> list[str]:
        """The pieces that match and what lies between them, in order."""
        spans = [match.span() for match in self.fit(text).finditer(text) if match.end() > match.start()]
        ends = [0, *(end for span in spans for end in span), len(text)]
        return [text[start:end] for start, end in pairwise(ends) if end > start]


def masked(text: str) -> str:
    """The text with a character of the same category in place of each one beyond the first plane."""
    return ASTRAL.sub(lambda match: stand_in(match[0]), text)


@functools.lru_cache(maxsize=4096)
def stand_in(character: str) -> str:
    """A character of the first plane, of the same category as one beyond."""
    point = ord(character)
    for category, found in STAND_INS.items():
        runs = ranges.named(category)
        place = bisect_right(runs, (point, ranges.LAST))
        if place and runs[place - 1][1] >= point:
            return found
    return STAND_INS["C"]


@functools.lru_cache(maxsize=32)
def translated(pattern: str, last: int) -> str:
    """The pattern for `re`, classes cut to code points up to `last`. Raises InputError naming what is not understood."""
    out, place = [], 0
    while place < len(pattern):
        character = pattern[place]
        if character == "[":
            found, place = bracket(pattern, place)
            out.append(ranges.spelled(found, last))
        elif character == "\\":
            found, place = escape(pattern, place)
            out.append(re.escape(chr(found)) if isinstance(found, int) else ranges.spelled(found, last))
        elif character == "(":
            group = GROUP.match(pattern, place)
            if not group and pattern.startswith("(?", place):
                raise refused(pattern, pattern[place:place + 4])
            out.append(group[0] if group else "(?:")
            place += len(group[0]) if group else 1
        elif quantifier := QUANTIFIER.match(pattern, place):
            out.append(quantifier[0])
            place = quantifier.end()
        elif character in "^$":
            raise refused(pattern, character)
        else:
            out.append({".": "[^\\n]", "|": "|", ")": ")"}.get(character) or re.escape(character))
            place += 1
    return "".join(out)


def escape(pattern: str, place: int) -> tuple[ranges.Ranges | int, int]:
    """(class, or one code point, that a backslash at `place` begins; where it ends)."""
    if found := PROPERTY.match(pattern, place):
        letter, caret, name, single = found.groups()
        return inverted(pattern, name or single, (letter == "P") != bool(caret)), found.end()
    if found := CODE.match(pattern, place):
        point = int(next(filter(None, found.groups())), 16)
        if point > ranges.LAST:
            raise refused(pattern, found[0])
        return point, found.end()
    following = pattern[place + 1:place + 2]
    if following.lower() in SHORT:
        return inverted(pattern, SHORT[following.lower()], following.isupper()), place + 2
    if following in CONTROL:
        return CONTROL[following], place + 2
    if not following or following.isalnum():
        raise refused(pattern, f"\\{following}")
    return ord(following), place + 2


def inverted(pattern: str, name: str, negative: bool) -> ranges.Ranges:
    """A class by name, or all else."""
    name = name.partition("=")[2] or name
    try:
        found = ranges.expression(name)
    except KeyError:
        raise refused(pattern, f"\\p{{{name}}}") from None
    return ranges.complement(found) if negative else found


def bracket(pattern: str, place: int) -> tuple[ranges.Ranges, int]:
    """(the class between brackets that begin at `place`, where it ends)."""
    start, found = place, []
    place += 1
    negative = pattern.startswith("^", place)
    place += negative
    while place < len(pattern):
        if pattern[place] == "]" and place > start + 1 + negative:
            whole = ranges.union(*found)
            return ranges.complement(whole) if negative else whole, place + 1
        if pattern[place] == "[" or pattern.startswith("&&", place):
            raise refused(pattern, pattern[place:place + 2])
        item, place = member(pattern, place)
        if isinstance(item, int):
            end = item
            if pattern.startswith("-", place) and pattern[place + 1:place + 2] not in ("]", ""):
                end, place = member(pattern, place + 1)
            if not isinstance(end, int) or end < item:
                raise refused(pattern, pattern[start:place])
            item = ((item, end),)
        found.append(item)
    raise refused(pattern, "a class that does not end")


def member(pattern: str, place: int) -> tuple[ranges.Ranges | int, int]:
    """One member of a class in brackets: a code point or a class."""
    return escape(pattern, place) if pattern[place] == "\\" else (ord(pattern[place]), place + 1)


def refused(pattern: str, part: str) -> InputError:
    """What a pattern holds that has no sure meaning here."""
    return InputError("pattern", part, f"of the pattern {pattern[:60]!r} only classes, groups without names, (?i:...), "
                                       "lookarounds and quantifiers are understood")
