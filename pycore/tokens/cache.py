"""Pieces already encoded, bounded: a text box typed into for a day must not grow the page."""

from collections.abc import Callable

ENTRIES = 1 << 16
LONGEST = 64
"""Characters; longer pieces hardly ever come again."""


class Cache(dict):
    """piece -> ids, filled by `encode` when a piece is missing. Full, it starts anew: common pieces are back at once."""

    __slots__ = ("encode",)

    def __init__(self, encode: Callable[[str], tuple[int, ...]]):
        super().__init__()
        self.encode = encode

    def __missing__(self, piece: str) -> tuple[int, ...]:
        found = self.encode(piece)
        if len(piece) <= LONGEST:
            if len(self) >= ENTRIES:
                self.clear()
            self[piece] = found
        return found
