"""Those who wait, kept in the policy's order: by its key, then by arrival. Entering costs a binary search."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pycore.serving.sequence import Sequence


class WaitingQueue:
    """Waiting and swapped sequences in order. `snapshot` is one tuple as long as nothing changes."""

    __slots__ = ("_entries", "_keys", "_snapshot")

    def __init__(self) -> None:
        self._entries: list[tuple[tuple, int, Sequence]] = []
        self._keys: dict[int, tuple] = {}
        self._snapshot: tuple[Sequence, ...] | None = ()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> "Iterator[Sequence]":
        return iter(self.snapshot())

    @property
    def head(self) -> "Sequence | None":
        return self._entries[0][2] if self._entries else None

    def snapshot(self) -> "tuple[Sequence, ...]":
        if self._snapshot is None:
            self._snapshot = tuple(entry[2] for entry in self._entries)
        return self._snapshot

    def first(self, count: int) -> "list[Sequence]":
        """The first `count` in order."""
        return [entry[2] for entry in self._entries[:count]]

    def enter(self, sequence: "Sequence", key: tuple) -> None:
        self._keys[sequence.serial] = key
        insort(self._entries, (key, sequence.serial, sequence))
        self._snapshot = None

    def leave(self, sequence: "Sequence") -> None:
        at = bisect_left(self._entries, (self._keys.pop(sequence.serial), sequence.serial))
        del self._entries[at]
        self._snapshot = None
