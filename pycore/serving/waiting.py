"""Those who wait, kept in the policy's order: by its key, then by arrival. Entering costs a binary search."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pycore.serving.sequence import Sequence


class WaitingQueue:
    """Waiting and swapped sequences in order. `snapshot` is one tuple as long as nothing changes.

    Places and sequences are two lists of one order, so that a snapshot of thousands is a plain copy.
    """

    __slots__ = ("tokens", "_places", "_sequences", "_keys", "_snapshot")

    def __init__(self) -> None:
        self.tokens = 0  # known tokens of all who wait
        self._places: list[tuple[tuple, int]] = []  # key, serial number
        self._sequences: list[Sequence] = []
        self._keys: dict[int, tuple] = {}
        self._snapshot: tuple[Sequence, ...] | None = ()

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> "Iterator[Sequence]":
        return iter(self.snapshot())

    @property
    def head(self) -> "Sequence | None":
        return self._sequences[0] if self._sequences else None

    def snapshot(self) -> "tuple[Sequence, ...]":
        if self._snapshot is None:
            self._snapshot = tuple(self._sequences)
        return self._snapshot

    def first(self, count: int) -> "list[Sequence]":
        """The first `count` in order."""
        return self._sequences[:count]

    def enter(self, sequence: "Sequence", key: tuple) -> None:
        self._keys[sequence.serial] = key
        at = bisect_left(self._places, (key, sequence.serial))
        self._places.insert(at, (key, sequence.serial))
        self._sequences.insert(at, sequence)
        self.tokens += sequence.known
        self._snapshot = None

    def leave(self, sequence: "Sequence") -> None:
        at = bisect_left(self._places, (self._keys.pop(sequence.serial), sequence.serial))
        del self._places[at], self._sequences[at]
        self.tokens -= sequence.known
        self._snapshot = None
