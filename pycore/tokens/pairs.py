"""Merging by a list of pairs, as a tokenizer.json has it: which two ids merge, in which order, into which id.

The known vocabularies need no such list, the order of their pieces says it all (`merging`); of a reader's own file that
cannot be taken for granted.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from pycore.tokens.merging import NEVER, Branch

Pairs = Mapping[tuple[int, int], tuple[int, int]]
"""(left id, right id) -> (rank, id of both together)."""
NO_MERGE = (NEVER, 0)


def merged(symbols: Sequence[int], pairs: Pairs) -> list[int]:
    """The ids that a piece's first ids end as: lowest rank first, the leftmost of equals. n log n."""
    count, ids = len(symbols), list(symbols)
    following, before = list(range(1, count + 2)), list(range(-1, count))
    found = [pairs.get(pair, NO_MERGE) for pair in zip(ids, ids[1:], strict=False)] + [NO_MERGE]
    heap = [rank * count + place for place, (rank, _) in enumerate(found) if rank != NEVER]
    heapify(heap)
    while heap:
        best, place = divmod(heappop(heap), count)
        if found[place][0] != best:
            continue
        gone = following[place]
        end = following[gone]
        ids[place], following[place], found[gone], found[place] = found[place][1], end, NO_MERGE, NO_MERGE
        if end < count:
            before[end] = place
        for left, right in ((place, end), (before[place], place)):
            if left >= 0 and right < count:
                found[left] = pairs.get((ids[left], ids[right]), NO_MERGE)
                if found[left][0] != NEVER:
                    heappush(heap, found[left][0] * count + left)
    place, kept = 0, []
    while place < count:
        kept.append(ids[place])
        place = following[place]
    return kept


def grown(symbols: Sequence[int], pairs: Pairs, piece: Callable[[int], bytes]) -> tuple[Branch, ...]:
    """The merges as trees, one a token; `piece` gives an id's bytes."""
    row, ids, order = [Branch(piece=piece(number)) for number in symbols], list(symbols), 0
    while len(row) > 1:
        found = [pairs.get(pair, NO_MERGE) for pair in zip(ids, ids[1:], strict=False)]
        best = min(found)
        if best[0] == NEVER:
            break
        order, place = order + 1, [rank for rank, _ in found].index(best[0])
        ids[place:place + 2] = [best[1]]
        row[place:place + 2] = [Branch(piece=row[place].piece + row[place + 1].piece, order=order,
                                       parts=(row[place], row[place + 1]))]
    return tuple(row)
