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
from pycore.pack.groups import CHUNK, lookup, slices
from pycore.pack.packed import Packed, Part, Section, Span
from pycore.pack.values import as_rows, checked_size, chosen, padded, stride_of

if TYPE_CHECKING:
    from numpy import ndarray

METADATA, VALUE_TYPES = ("plain", "cutlass"), ("float16", "bfloat16")
ROWS, COLUMNS, WORD_SLOTS = 32, 32, 16


def quantise(values: object, *, value_type: str = "float16", metadata: str = "plain") -> Packed:
    """`values` (any shape; the last dimension is a row) with the two smallest of every four dropped. Raises InputError."""
    chosen("value_type", value_type, VALUE_TYPES)
    chosen("metadata", metadata, METADATA)
    rows, shape = as_rows(values)
    check_shape(shape, metadata)
    bits = scale_types.encoded(padded(rows, 8, fill="zero"), value_type)
    pairs, quads = compressed(bits.reshape(-1, 4))
    return made(pairs.tobytes(), quads, shape, value_type, metadata)


def compressed(fours: "ndarray") -> tuple["ndarray", "ndarray"]:
    """(kept (n, 2), nibbles of their indexes (n)) of fours (n, 4) given as the bits of 16-bit floats."""
    import numpy as np

    pairs, quads = np.empty((len(fours), 2), fours.dtype), np.empty(len(fours), np.uint8)
    nibble_of = np.array([quad_of(pattern) for pattern in range(16)], np.uint8)
    indexes = np.array([(quad & 3, quad >> 2) for quad in range(16)], np.intp)
    first = np.arange(0, CHUNK, 4)[:, np.newaxis]
    for part in slices(len(fours), 4):
        columns = np.ascontiguousarray(fours[part].T) & 0x7FFF
        keep = (kept(columns) & (columns != 0)).view(np.uint8)
        quads[part] = lookup(nibble_of, keep[0] | keep[1] << 1 | keep[2] << 2 | keep[3] << 3)
        place = indexes.take(quads[part], axis=0, mode="clip")
        place += first[:len(place)]
        np.take(fours[part].reshape(-1), place, out=pairs[part], mode="clip")
    return pairs, quads


def quad_of(pattern: int) -> int:
    """The nibble for which of four are kept and not zero (bit i: the i-th), at most two of them."""
    nonzero = [place for place in range(4) if pattern >> place & 1]
    first = nonzero[0] if nonzero and nonzero[0] < 2 else 2
    if pattern & 3 == 3:
        return first | 1 << 2
    return first | (3 if pattern & 8 or not pattern & 3 else 2) << 2


def check_shape(shape: tuple[int, ...], metadata: str) -> None:
    """Raise InputError for a shape that CUTLASS's layout cannot hold."""
    rows = 1
    for size in shape[:-1]:
        rows *= size
    if metadata == "cutlass" and (rows % ROWS or shape[-1] % COLUMNS):
        raise InputError("metadata", metadata, f"its layout needs a multiple of {ROWS} rows and of {COLUMNS} columns, not "
                                               f"{rows} x {shape[-1]}; plain takes any shape")


def kept(size: "ndarray") -> "ndarray":
    """Which of each four magnitudes (4, n) are among the two largest; of equals the earlier.

    Magnitudes are the lower 15 bits of 16-bit floats, which are in the order of what they stand for.
    """
    import numpy as np

    beaten = np.zeros(size.shape, np.uint8)
    for left in range(4):
        for right in range(left + 1, 4):
            wins = size[left] >= size[right]
            beaten[right] += wins
            beaten[left] += ~wins
    return beaten < 2


def made(stored: bytes, quads: "ndarray", shape: tuple[int, ...], value_type: str,
         metadata: str) -> Packed:
    """The noun from the bytes of the kept values and the nibbles of their indexes.

    `codes` is 0 for dropped, 1 and 2 for the first and second kept; `scales` holds the kept values, two for every four.
    """
    import numpy as np

    stride = stride_of(shape[-1], 8)
    four_codes = np.array([[(place == quad & 3) + 2 * (place == quad >> 2) for place in range(4)] for quad in range(16)],
                          np.uint8).view(np.uint32).reshape(-1)
    codes = lookup(four_codes, quads).view(np.uint8)
    data = stored + pack(quads, stride // WORD_SLOTS, metadata).tobytes()
    return Packed(format="sparse-2:4", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=scale_types.from_bytes(stored, value_type).reshape(-1, 2), data=data,
                  options=(("value_type", value_type), ("metadata", metadata)))


def pack(quads: "ndarray", words_a_row: int, metadata: str = "plain") -> "ndarray":
    """Nibbles (n) of the fours to metadata bytes."""
    import numpy as np

    flat = nibbles.pack(quads)
    if metadata == "plain":
        return flat
    words, out = flat.view("<u2"), np.empty(flat.size // 2, "<u2")
    out[places(words.size // words_a_row, words_a_row)] = words
    return out.view(np.uint8)


def unpack(data: "ndarray", words_a_row: int, metadata: str = "plain") -> "ndarray":
    """Metadata bytes to nibbles (n) of the fours."""
    import numpy as np

    if metadata == "cutlass":
        words = np.ascontiguousarray(data).view("<u2")
        data = np.ascontiguousarray(words[places(words.size // words_a_row, words_a_row)]).view(np.uint8)
    return nibbles.unpack(data)


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
    quads = unpack(np.frombuffer(data[slots:], np.uint8), stride // WORD_SLOTS, metadata)
    if (quads & 3 >= quads >> 2).any():
        raise InputError("data", "metadata", "the two indexes of four weights rise")
    return made(data[:slots], quads, shape, value_type, metadata)


def dequantise(packed: Packed) -> "ndarray":
    """The weights that stay, zero for the others, float32, in the tensor's shape."""
    import numpy as np

    values = np.zeros(packed.slots, np.float32)
    np.place(values, packed.codes.reshape(-1), packed.scales.reshape(-1))  # what is kept, in its order: two of every four
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
