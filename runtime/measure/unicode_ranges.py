"""Write `data/tokenizers/unicode_ranges.csv`: which characters a pattern's \\p{..} means, in one stated Unicode version.

    python -m runtime.measure.unicode_ranges --facts FOLDER [--check]

The version is 16.0.0: the one that tiktoken 0.14 and tokenizers 0.23 both have, code point by code point (tested). A
Python's own tables differ from release to release, and building them at start is slow in a browser. General categories
come from PyPI `unicodedata2` 16.0.0 (or a Python that has 16.0.0 itself); what graphemes are made of from PyPI `pyuegc`
16.0.3, whose tables are of 16.0.0; scripts from PyPI `regex`, cut to what is assigned in 16.0.0. The class 'frozen' is
what the normaliser of `tokenizers` leaves alone though later Unicode does not (its tables are older), found by asking it.
"""

import argparse
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from runtime.measure.tables import csv_text, settle

VERSION = "16.0.0"
COLUMNS = ("class", "unicode", "count", "ranges", "source")
SCRIPTS = ("Han", "Hiragana", "Katakana", "Hangul", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "Arabic", "Devanagari",
           "Latin", "Cyrillic", "Greek", "Hebrew")
BREAKS = ("Control", "Extend", "Prepend", "SpacingMark", "Regional_Indicator", "L", "V", "T", "LV", "LVT")
EVERY = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def tables_of_unicode() -> ModuleType:
    """The module with the stated version's tables."""
    if unicodedata.unidata_version == VERSION:
        return unicodedata
    import unicodedata2

    if unicodedata2.unidata_version != VERSION:
        raise SystemExit(f"unicodedata2 has Unicode {unicodedata2.unidata_version}; pip install unicodedata2=={VERSION}")
    return unicodedata2


def spelled(points: Iterable[int]) -> str:
    """Code points as hexadecimal runs: [65, 66, 67, 97] is '41-43 61'."""
    runs: list[list[int]] = []
    for point in sorted(points):
        if runs and point == runs[-1][1] + 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return " ".join(f"{first:x}" if first == last else f"{first:x}-{last:x}" for first, last in runs)


def categories(unicode: ModuleType) -> dict[str, list[int]]:
    """Code points by general category; what is not assigned, private or a surrogate is left to the complement."""
    found: dict[str, list[int]] = {}
    for point in EVERY:
        kind = unicode.category(chr(point))
        if kind not in ("Cn", "Co"):
            found.setdefault(kind, []).append(point)
    return dict(sorted(found.items()))


def scripts(assigned: set[int]) -> dict[str, list[int]]:
    """Code points by script, for patterns of uploaded tokenizers."""
    import regex

    text = "".join(chr(point) for point in EVERY if point in assigned)
    return {f"script:{name}": [ord(character) for character in regex.findall(rf"\p{{Script={name}}}", text)]
            for name in SCRIPTS}


def breaks() -> dict[str, list[int]]:
    """What grapheme clusters are made of, by the names that `pycore.tokens.graphemes` knows."""
    from pyuegc import _unicode as tables

    found = {f"break:{name}": [] for name in BREAKS}
    for point, kind in tables._PROP_DICT.items():
        found.get(f"break:{kind}", []).append(point)
    conjunct = {"Consonant": tables._INCB_CONSONANT, "Linker": tables._INCB_LINKER, "Extend": tables._INCB_EXTEND}
    return found | {f"conjunct:{name}": sorted(map(ord, characters)) for name, characters in conjunct.items()} | {
        "pictographic": sorted(tables._EXT_PICTOGR)}


def frozen(unicode: ModuleType) -> set[int]:
    """What later Unicode reorders, decomposes or composes and `tokenizers` does not; with the bases composed from."""
    from tokenizers import normalizers

    pairs = [(form, normaliser.normalize_str) for form, normaliser in (("NFC", normalizers.NFC()),
                                                                        ("NFKC", normalizers.NFKC()))]
    found = set()
    for point in EVERY:
        one = chr(point)
        if not (unicode.combining(one) or unicode.decomposition(one)):
            continue
        probes = (one, f"a{one}", f"a\u0345{one}", f"a{one}\u0334", unicode.normalize("NFD", one))
        if any(ask(probe) != unicode.normalize(form, probe) for form, ask in pairs for probe in probes):
            parts = unicode.decomposition(one)
            found |= {point} | ({int(parts.split()[0], 16)} if parts and point > 0xFFFF and "<" not in parts else set())
    return found


def joining(unicode: ModuleType, left_alone: set[int]) -> list[int]:
    """What may change with the character before it when a text is normalised: marks, and second halves of composites."""
    second = {chr(point) for point in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # Hangul vowels and finals
    for point in EVERY:
        parts = unicode.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            second.add(chr(int(parts[1], 16)))
    return [point for point in EVERY if point not in left_alone
            and ((first := unicode.normalize("NFKD", chr(point))[0]) in second or unicode.combining(first))]


def rows() -> list[dict[str, object]]:
    """Every class."""
    unicode = tables_of_unicode()
    by_category = categories(unicode)
    assigned = {point for points in by_category.values() for point in points}
    left_alone = frozen(unicode)
    sources = ((by_category, "unicodedata2 16.0.0"), (scripts(assigned), "regex, cut to Unicode 16.0.0"),
               (breaks(), "pyuegc 16.0.3"),
               ({"frozen": sorted(left_alone)}, "tokenizers 0.23.3 beside unicodedata2 16.0.0"),
               ({"joining": joining(unicode, left_alone)}, "unicodedata2 16.0.0"))
    return [{"class": name, "unicode": VERSION, "count": len(points), "ranges": spelled(points), "source": source}
            for found, source in sources for name, points in found.items()]


def main() -> int:
    """Write the table, or with --check compare it; the exit status is 1 when it differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--facts", type=Path, help="not needed: the facts come from packages")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    return settle({"data/tokenizers/unicode_ranges.csv": csv_text(COLUMNS, rows())}, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
