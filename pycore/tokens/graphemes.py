"""Extended grapheme clusters: what a reader calls one character (Unicode Standard Annex 29, Unicode 16.0.0).

For display: tokens that share a cluster are shown together. Tokenizers themselves know nothing of clusters.
"""

import functools
import re
from bisect import bisect_right
from itertools import accumulate

from pycore.tokens.ranges import complement, shipped, spelled, union


@functools.cache
def pattern() -> re.Pattern[str]:
    """One cluster, as the annex's table 1c and rule GB9c put it together."""
    table = shipped()
    kinds = {name.partition(":")[2]: spelled(ranges) for name, ranges in table.items() if name.startswith("break:")}
    consonant, linker, extend = (spelled(table[f"conjunct:{name}"]) for name in ("Consonant", "Linker", "Extend"))
    linking = spelled(union(table["conjunct:Linker"], table["conjunct:Extend"]))
    picture = spelled(table["pictographic"])
    other = spelled(complement(union(table["break:Control"], ((10, 10), (13, 13)))))
    core = "|".join((
        f"{kinds['L']}*(?:{kinds['V']}+|{kinds['LV']}{kinds['V']}*|{kinds['LVT']}){kinds['T']}*", f"{kinds['L']}+",
        f"{kinds['T']}+", f"{kinds['Regional_Indicator']}{{2}}",
        f"{picture}(?:{kinds['Extend']}*\u200d{picture})*",
        f"{consonant}(?:{extend}*{linker}{linking}*{consonant})+", other))
    after = spelled(union(table["break:Extend"], table["break:SpacingMark"], ((0x200D, 0x200D),)))
    return re.compile(f"\r\n|{kinds['Prepend']}*(?:{core}){after}*|{spelled(((0, 0x10FFFF),))}")


def clusters(text: str) -> list[str]:
    """The clusters of a text, in order; joined they are the text."""
    return list(text) if text.isascii() and "\r\n" not in text else pattern().findall(text)


def starts(text: str) -> list[int]:
    """Where each cluster begins, in code points."""
    return [0, *accumulate(map(len, clusters(text)))][:-1]


def number_of(place: int, begins: list[int]) -> int:
    """Number of the cluster that a code point lies in; `begins` are the `starts` of its text."""
    return bisect_right(begins, place) - 1
