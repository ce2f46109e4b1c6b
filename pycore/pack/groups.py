"""Work on many small groups at cache size: smallest and largest of each, table look-ups, and the slices that both go by.

numpy reduces a short last axis slowly and a long first axis fast, so a cache-sized run of groups is turned over in units of
four floats first; and it takes from a table fastest by machine integers into an array that is already there.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray

CHUNK = 1 << 15  # numbers at once: 128 KiB of floats
UNIT = 4
LONG = 1024  # groups from this length on are reduced well as they are


def slices(count: int, width: int) -> Iterator[slice]:
    """Slices of `count` groups of `width` numbers, each about `CHUNK` numbers."""
    step = max(1, CHUNK // width)
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def extremes(groups: "ndarray") -> tuple["ndarray", "ndarray"]:
    """(smallest, largest), each (n, 1), of groups in rows, float32 and contiguous."""
    import numpy as np

    count, width = groups.shape
    if width % UNIT or width >= LONG:
        return groups.min(axis=1, keepdims=True), groups.max(axis=1, keepdims=True)
    low, high = np.empty((count, 1), np.float32), np.empty((count, 1), np.float32)
    for part in slices(count, width):
        turned = np.ascontiguousarray(groups[part].view(np.complex128).T).view(np.float32)
        for out, reduce, pick in ((low, turned.min, np.minimum), (high, turned.max, np.maximum)):
            fours = reduce(axis=0).reshape(-1, UNIT)
            out[part, 0] = pick(pick(fours[:, 0], fours[:, 1]), pick(fours[:, 2], fours[:, 3]))
    return low, high


def magnitude(groups: "ndarray") -> "ndarray":
    """The largest magnitude in each row, (n, 1); never minus zero."""
    import numpy as np

    low, high = extremes(groups)
    return np.maximum(np.abs(low), np.abs(high))


def lookup(table: "ndarray", codes: "ndarray") -> "ndarray":
    """table[codes] for whole numbers within the table, in the shape of the codes."""
    import numpy as np

    flat, out = codes.reshape(-1), np.empty(codes.size, table.dtype)
    index = np.empty(min(CHUNK, flat.size), np.intp)
    for part in slices(flat.size, 1):
        place = index[:part.stop - part.start]
        np.copyto(place, flat[part], casting="unsafe")
        np.take(table, place, out=out[part], mode="clip")
    return out.reshape(codes.shape)


def each(groups: "ndarray", out: "ndarray", work: object, *sides: "ndarray") -> "ndarray":
    """out = work(scratch, groups, *sides) slice by slice; the work fills a float32 scratch, which is then cast to `out`."""
    import numpy as np

    scratch = np.empty((max(1, min(groups.shape[0], CHUNK // groups.shape[1])), groups.shape[1]), np.float32)
    for part in slices(*groups.shape):
        room = scratch[:part.stop - part.start]
        work(room, groups[part], *(side[part] for side in sides))
        np.copyto(out[part], room, casting="unsafe")
    return out


def affine(codes: "ndarray", scales: "ndarray", before: object = 0, after: "ndarray | None" = None) -> "ndarray":
    """(codes - before) x scales + after, float32: codes (n, width), scales and after (n, 1), before a number or (n, 1).

    A number is subtracted while codes are still bytes, a quarter of the memory: codes are then bytes below 128.
    """
    import numpy as np

    out = np.empty(codes.shape, np.float32)
    column = before if np.ndim(before) else None
    small = np.empty((max(1, min(codes.shape[0], CHUNK // codes.shape[1])), codes.shape[1]), np.int8)
    for part in slices(*codes.shape):
        values = out[part]
        if column is None and before:
            np.copyto(values, np.subtract(codes[part].view(np.int8), np.int8(before), out=small[:part.stop - part.start]))
        else:
            np.copyto(values, codes[part])
        if column is not None:
            values -= column[part]
        values *= scales[part]
        if after is not None:
            values += after[part]
    return out
