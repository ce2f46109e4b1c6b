"""Byte-pair merging of one piece: of all neighbours whose union is known, the pair of lowest rank merges first, the
leftmost of equals; again, until nothing merges.

A piece is a sequence (bytes, or text for SentencePiece) and a symbol a slice of it. The shortest pieces are scanned for the
lowest rank; others keep a heap and linked neighbours, so that time grows as n log n.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

SCANNED = 10
"""Symbols up to which scanning is faster than the heap (measured)."""
NEVER = 1 << 60


def merged(piece: Sequence, ranks: Mapping) -> list:
    """The symbols that a piece ends as, in order: slices of it."""
    if len(piece) > SCANNED:
        return by_heap(piece, ranks.get)
    return by_scan(piece, ranks.get)


def by_scan(piece: Sequence, rank_of: Callable) -> list:
    """Merge by looking through all ranks each time."""
    starts = list(range(len(piece) + 1))
    ranks = [rank_of(piece[start:start + 2], NEVER) for start in range(len(piece) - 1)]
    last = len(ranks) - 1
    while last >= 0:
        best = min(ranks)
        if best == NEVER:
            break
        place = ranks.index(best)
        del starts[place + 1]
        del ranks[place]
        last -= 1
        if place <= last:
            ranks[place] = rank_of(piece[starts[place]:starts[place + 2]], NEVER)
        if place:
            ranks[place - 1] = rank_of(piece[starts[place - 1]:starts[place + 1]], NEVER)
    return [piece[start:end] for start, end in zip(starts, starts[1:], strict=False)]


def by_heap(piece: Sequence, rank_of: Callable) -> list:
    """Merge with a heap of (rank, place) in one number; an entry whose rank is no longer that of its place is stale."""
    count = len(piece)
    shift = count.bit_length()
    mask = (1 << shift) - 1
    following, before = list(range(1, count + 2)), list(range(-1, count))
    ranks = [rank_of(piece[start:start + 2]) for start in range(count - 1)] + [None]
    heap = [rank << shift | place for place, rank in enumerate(ranks) if rank is not None]
    heapify(heap)
    while heap:
        entry = heappop(heap)
        place = entry & mask
        if ranks[place] != entry >> shift:
            continue
        gone = following[place]
        end = following[place] = following[gone]
        ranks[gone] = ranks[place] = None
        if end < count:
            before[end] = place
            rank = ranks[place] = rank_of(piece[place:following[end]])
            if rank is not None:
                heappush(heap, rank << shift | place)
        left = before[place]
        if left >= 0:
            rank = ranks[left] = rank_of(piece[left:end])
            if rank is not None:
                heappush(heap, rank << shift | left)
    found, start = [], 0
    while start < count:
        found.append(piece[start:following[start]])
        start = following[start]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A symbol and the two it was merged from, none for one that was there from the start. `order` counts the merges of
    the piece from 1; 0 where nothing was merged.
    """

    piece: Sequence
    order: int = 0
    parts: tuple["Branch", ...] = ()


def grown(piece: Sequence, ranks: Mapping) -> tuple[Branch, ...]:
    """The merges that make the symbols of a piece, one tree a symbol. Time grows with the square of the length."""
    row = [Branch(piece=piece[start:start + 1]) for start in range(len(piece))]
    order = 0
    while len(row) > 1:
        found = [ranks.get(left.piece + right.piece, NEVER) for left, right in zip(row, row[1:], strict=False)]
        best = min(found)
        if best == NEVER:
            break
        order, place = order + 1, found.index(best)
        row[place:place + 2] = [Branch(piece=row[place].piece + row[place + 1].piece, order=order,
                                       parts=(row[place], row[place + 1]))]
    return tuple(row)
