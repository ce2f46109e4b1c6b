"""Classes of characters as ranges of code points: Unicode 16.0.0, from `data/tokenizers/unicode_ranges.csv`.

Read from data because a Python's own tables differ by its version (3.11 has Unicode 14) and take seconds to walk in a
browser. A class is a tuple of (first, last), ascending, both ends included, neighbours joined.
"""

import functools
from collections.abc import Iterable

from pycore import facts

VERSION = "16.0.0"
LAST = 0x10FFFF
Ranges = tuple[tuple[int, int], ...]

EVERY: Ranges = ((0, LAST),)
SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
                 (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000))
r"""White_Space, what \s means to Rust and to Oniguruma; Python's own \s has U+001C to U+001F besides."""
CJK: Ranges = ((0x3040, 0x30FF), (0x4E00, 0x9FA5))
"""Kana and the ideographs of Unicode 1.1, as DeepSeek's tokenizer names them; not the script Han."""


@functools.cache
def shipped() -> dict[str, Ranges]:
    """Every class of the table by its name there: 'Lu', 'script:Han', 'break:Extend', 'joining'."""
    found = {}
    for row in facts.table("unicode_ranges", dataset="tokenizers"):
        runs = (run.partition("-") for run in row["ranges"].split())
        found[row["class"]] = tuple((int(first, 16), int(last or first, 16)) for first, _, last in runs)
    return found


@functools.cache
def named(name: str) -> Ranges:
    r"""A class by what a pattern calls it: a general category ('L', 'Lu'), a script ('Han'), 'any', 'space', 'word' or
    'cjk'. Raises KeyError.
    """
    own = {"any": EVERY, "Any": EVERY, "space": SPACE, "cjk": CJK}
    if name in own:
        return own[name]
    table = shipped()
    if name == "word":  # Oniguruma's \w
        return union(*(named(part) for part in ("L", "M", "N", "Pc")))
    if name == "Cn":  # not assigned, or private, or a surrogate: told apart by nobody here
        return complement(union(*(ranges for key, ranges in table.items() if len(key) == 2)))
    if name == "C":
        return union(table["Cc"], table["Cf"], named("Cn"))
    members = [ranges for key, ranges in table.items() if len(key) == 2 and key[0] == name]
    return union(*members) if members else table.get(name) or table[f"script:{name}"]


def union(*classes: Iterable[tuple[int, int]]) -> Ranges:
    """Characters of any of the classes."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(run for ranges in classes for run in ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def complement(ranges: Ranges, last: int = LAST) -> Ranges:
    """Every other character up to `last`."""
    found, start = [], 0
    for first, end in ranges:
        if first > start:
            found.append((start, min(first - 1, last)))
        start = end + 1
    found += [(start, last)] if start <= last else []
    return tuple(run for run in found if run[0] <= last)


def minus(ranges: Ranges, others: Ranges) -> Ranges:
    """Characters of the first class that are not in the second."""
    return common(ranges, complement(others))


def common(ranges: Ranges, others: Ranges) -> Ranges:
    """Characters of both classes."""
    found, place = [], 0
    for first, last in ranges:
        while place < len(others) and others[place][1] < first:
            place += 1
        index = place
        while index < len(others) and others[index][0] <= last:
            found.append((max(first, others[index][0]), min(last, others[index][1])))
            index += 1
    return tuple(found)


def expression(text: str) -> Ranges:
    r"""Classes put together from the left: 'L+M-cjk' is letters and marks without `CJK`, 'P+S&cjk' what of punctuation and
    symbols is in it. Raises KeyError with the name that is not known.
    """
    result, operator, word = (), "+", ""
    for character in text + "+":
        if character not in "+-&":
            word += character
            continue
        ranges = named(word)
        result = {"+": union, "-": minus, "&": common}[operator](result, ranges)
        operator, word = character, ""
    return result


def spelled(ranges: Ranges, last: int = LAST) -> str:
    """The class as `re` writes it, between brackets, cut to code points up to `last`. An empty one matches nothing."""
    inside = common(ranges, ((0, last),))
    outside = complement(inside, last)
    if not outside:
        return r"[\x00-\U0010ffff]"
    if not inside:
        return r"[^\x00-\U0010ffff]"
    if len(outside) < len(inside):
        return "[^" + "".join(map(run, outside)) + "]"
    return "[" + "".join(map(run, inside)) + "]"


def run(ends: tuple[int, int]) -> str:
    """One range between the brackets of `re`."""
    first, last = (f"\\U{point:08x}" for point in ends)
    return first if first == last else f"{first}-{last}"
