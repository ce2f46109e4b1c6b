"""Identifiers of blocks, made to name whole prefixes.

A scheduler takes an identifier for everything up to and including its block (as Mooncake's traces mean it). A file may
name contents instead: then one identifier stands after different blocks, and its keys and values are not the same ones.
"""

from collections.abc import Sequence

Ids = tuple[int, ...]


def first_unchained(rows: Sequence[Ids]) -> tuple[int, int] | None:
    """(row, identifier) of the first that stands elsewhere after another block; None where all name whole prefixes."""
    before: dict[int, int | None] = {}
    for row, ids in enumerate(rows):
        last = None
        for identifier in ids:
            if before.setdefault(identifier, last) != last:
                return row, identifier
            last = identifier
    return None


def chained(rows: Sequence[Ids]) -> list[Ids]:
    """The same rows with an identifier for each distinct prefix, numbered from 0 in order of first sight: two rows share
    exactly the blocks before the first in which they differ."""
    names: dict[tuple[int, int], int] = {}
    made = []
    for ids in rows:
        last, renamed = -1, []
        for identifier in ids:
            last = names.setdefault((last, identifier), len(names))
            renamed.append(last)
        made.append(tuple(renamed))
    return made
