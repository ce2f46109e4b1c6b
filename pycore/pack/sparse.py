"""2:4 sparsity: of every four weights the two largest stay, and two bits each say which.

    values     | v0 v0 | v1 v1 | ...          the kept ones, float16 or bfloat16, two for every four weights
    metadata   nibble of four weights = | second index | first index |,   two bits each

    plain      nibbles in the order of the weights, low nibble first
    cutlass    16-bit words of four nibbles, in the order that NVIDIA's sparse tensor cores load them (needs a multiple of
               32 rows and of 32 columns): within 32 rows word (r, c) goes to row 4 (r mod 8) + r div 8; then the two words
               off the diagonal of every 2 x 2 square change places; then pairs of columns are stored one after the other

Where fewer than two of four are not zero, the first index is of the first that is not zero (else 2), the second of the
next, by the rule that torch's conversion uses, so that the bytes are the same.
Bits per weight: 16 / 2 + 4 / 4 = 9, not 8: the metadata counts. Source: Mishra 2021 (arXiv 2104.08378).
"""

from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack import nibbles
from pycore.pack import scales as scale_types
from pycore.pack.groups import lookup
from pycore.pack.packed import Packed, Part, Section, Span
from pycore.pack.values import as_rows, checked_size, chosen, padded, stride_of

if TYPE_CHECKING:
    from numpy import ndarray

METADATA, VALUE_TYPES = ("plain", "cutlass"), ("float16", "bfloat16")
ROWS, COLUMNS, WORD_SLOTS = 32, 32, 16


def quantise(values: object, *, value_type: str = "float16", metadata: str = "plain") -> Packed:
    """`values` (any shape; the last dimension is a row) with the two smallest of every four dropped. Raises InputError."""
    import numpy as np

    chosen("value_type", value_type, VALUE_TYPES)
    chosen("metadata", metadata, METADATA)
    rows, shape = as_rows(values)
    check_shape(shape, metadata)
    rounded, _ = scale_types.stored(padded(rows, 8, fill="zero"), value_type)
    fours = np.ascontiguousarray(rounded.reshape(-1, 4).T)
    indexes = indexes_of(fours, kept(fours))
    pairs = np.empty((fours.shape[1], 2), np.float32)
    pairs[:, 0] = np.where(indexes[0] == 0, fours[0], np.where(indexes[0] == 1, fours[1], fours[2]))
    pairs[:, 1] = np.where(indexes[1] == 1, fours[1], np.where(indexes[1] == 2, fours[2], fours[3]))
    return made(pairs, indexes, shape, value_type, metadata)


def check_shape(shape: tuple[int, ...], metadata: str) -> None:
    """Raise InputError for a shape that CUTLASS's layout cannot hold."""
    rows = 1
    for size in shape[:-1]:
        rows *= size
    if metadata == "cutlass" and (rows % ROWS or shape[-1] % COLUMNS):
        raise InputError("metadata", metadata, f"its layout needs a multiple of {ROWS} rows and of {COLUMNS} columns, not "
                                               f"{rows} x {shape[-1]}; plain takes any shape")


def kept(fours: "ndarray") -> "ndarray":
    """Which of each four (4, n) are among the two largest magnitudes; of equals the earlier."""
    import numpy as np

    size = np.abs(fours)
    beaten = np.zeros(fours.shape, np.uint8)
    for left in range(4):
        for right in range(left + 1, 4):
            wins = size[left] >= size[right]
            beaten[right] += wins
            beaten[left] += ~wins
    return beaten < 2


def indexes_of(fours: "ndarray", keep: "ndarray") -> tuple["ndarray", "ndarray"]:
    """(first, second) index (n) of what is stored of each four."""
    import numpy as np

    first_two, last = (keep[:2] & (fours[:2] != 0)), keep[3] & (fours[3] != 0)
    both, either = first_two.all(axis=0), first_two.any(axis=0)
    first = np.where(first_two[0], 0, np.where(first_two[1], 1, 2)).astype(np.uint8)
    second = np.where(both, 1, np.where(last | ~either, 3, 2)).astype(np.uint8)
    return first, second


def made(pairs: "ndarray", indexes: tuple["ndarray", "ndarray"], shape: tuple[int, ...], value_type: str,
         metadata: str) -> Packed:
    """The noun from stored values (n, 2) and their indexes; `codes` is 0 for dropped, 1 and 2 for the first and second."""
    import numpy as np

    stride = stride_of(shape[-1], 8)
    quads = indexes[0] | indexes[1] << 2
    four_codes = np.array([[(place == quad & 3) + 2 * (place == quad >> 2) for place in range(4)] for quad in range(16)],
                          np.uint8).view(np.uint32).reshape(-1)
    codes = lookup(four_codes, quads).view(np.uint8)
    rounded, stored = scale_types.stored(pairs, value_type)
    data = stored + pack(quads, stride // WORD_SLOTS, metadata).tobytes()
    return Packed(format="sparse-2:4", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=rounded, data=data, options=(("value_type", value_type), ("metadata", metadata)))


def pack(quads: "ndarray", words_a_row: int, metadata: str = "plain") -> "ndarray":
    """Nibbles (n) of the fours to metadata bytes."""
    import numpy as np

    flat = nibbles.pack(quads)
    if metadata == "plain":
        return flat
    words, out = flat.view("<u2"), np.empty(flat.size // 2, "<u2")
    out[places(words.size // words_a_row, words_a_row)] = words
    return out.view(np.uint8)


def unpack(data: "ndarray", words_a_row: int, metadata: str = "plain") -> tuple["ndarray", "ndarray"]:
    """Metadata bytes to (first, second) indexes of the fours."""
    import numpy as np

    if metadata == "cutlass":
        words = np.ascontiguousarray(data).view("<u2")
        data = np.ascontiguousarray(words[places(words.size // words_a_row, words_a_row)]).view(np.uint8)
    quads = nibbles.unpack(data)
    return quads & 3, quads >> 2


def places(rows: int, words_a_row: int) -> "ndarray":
    """Where each 16-bit word of the metadata, in row order, is stored in CUTLASS's order."""
    import numpy as np

    row, column = np.divmod(np.arange(rows * words_a_row), words_a_row)
    row = row // ROWS * ROWS + row % 8 * 4 + row % ROWS // 8
    swap = (row % 2 == 0).astype(np.int64) * (column % 2) - (row % 2) * (column % 2 == 0)
    row, column = row + swap, column - swap
    return column // 2 * rows * 2 + row * 2 + column % 2


def read(data: bytes, shape: tuple[int, ...], *, value_type: str = "float16", metadata: str = "plain") -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape or an index repeats."""
    import numpy as np

    chosen("value_type", value_type, VALUE_TYPES)
    check_shape(shape, chosen("metadata", metadata, METADATA))
    stride = stride_of(shape[-1], 8)
    slots = int(np.prod(shape)) // shape[-1] * stride
    data = checked_size(data, slots + slots // 8, "a 2:4 tensor")
    indexes = unpack(np.frombuffer(data[slots:], np.uint8), stride // WORD_SLOTS, metadata)
    if (indexes[0] >= indexes[1]).any():
        raise InputError("data", "metadata", "the two indexes of four weights rise")
    return made(scale_types.from_bytes(data[:slots], value_type).reshape(-1, 2), indexes, shape, value_type, metadata)


def dequantise(packed: Packed) -> "ndarray":
    """The weights that stay, zero for the others, float32, in the tensor's shape."""
    import numpy as np

    codes, values = packed.codes.reshape(-1), np.zeros(packed.slots, np.float32)
    for place in range(2):  # every four has one first and one second
        values[codes == place + 1] = packed.scales[:, place]
    return np.ascontiguousarray(values.reshape(-1, packed.stride)[:, :packed.columns]).reshape(packed.shape)


def sections(packed: Packed) -> tuple[Section, ...]:
    """Values, then metadata."""
    import numpy as np

    codes, decode = packed.codes.reshape(-1, 4).astype(np.int64), scale_types.decoder(packed.option("value_type"))
    stored = tuple(Part("code", "value", (Span(2 * place, 0, 8), Span(2 * place + 1, 0, 8)), decode) for place in range(2))
    value = Section(name="values", start=0, record_bytes=4, record_slots=4, records=packed.slots // 4,
                    inside=lambda slot, record: stored[max(codes[record, slot] - 1, 0):codes[record, slot]])
    if packed.option("metadata") == "plain":
        return value, Section(name="metadata", start=value.end, record_bytes=1, record_slots=8,
                              records=packed.slots // 8, inside=lambda slot, record: (quad(slot),))
    place = places(packed.rows, packed.stride // WORD_SLOTS)
    return value, Section(name="metadata", start=value.end, record_bytes=2, record_slots=16, records=packed.slots // 16,
                          inside=lambda slot, record: (quad(slot),), place=place, origin=np.argsort(place))


def quad(slot: int) -> Part:
    """The nibble that says which two of a slot's four are kept."""
    return Part("metadata", "kept indexes", (Span(slot // 8, 4 * (slot // 4 % 2), 4),))
