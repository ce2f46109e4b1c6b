"""Weights packed into bytes, and where in those bytes each of them lies.

    data    the bytes as they lie in memory or in a file, one section after the other
    section records of equal size; a record serves `record_slots` consecutive slots
    slot    a weight's place in its row, rows padded to `stride`: slot = row x stride + column
    part    a run of bits within a record: a code, a scale, a zero, metadata

A slot's record in a section is `slot // record_slots`, unless the section has an order of its own (2:4 metadata).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

ROLES = ("code", "scale", "zero", "metadata")


@dataclass(frozen=True, slots=True)
class Span:
    """`width` bits of one byte from bit `low` up; bit 0 is the least significant."""

    byte: int
    low: int
    width: int


@dataclass(frozen=True, slots=True)
class Part:
    """Bits with one meaning within a record; spans from the least significant up, bytes counted from the record's first.

    `decode` turns the bits as an unsigned integer into the number they stand for; None where the integer is the number.
    """

    role: str
    name: str
    spans: tuple[Span, ...]
    decode: Callable[[int], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A run of equal records. `inside(slot, record)` gives the parts for the slot with that number within its record.

    `shared` says that all bits of a record belong to all its slots. `place` maps a record's number to where it is
    stored and `origin` back; None where records are stored in order.
    """

    name: str
    start: int
    record_bytes: int
    record_slots: int
    records: int
    inside: Callable[[int, int], tuple[Part, ...]]
    shared: bool = False
    place: Sequence[int] | None = None
    origin: Sequence[int] | None = None

    @property
    def end(self) -> int:
        """First byte after this section."""
        return self.start + self.record_bytes * self.records


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Packed:
    """The weights of one tensor in one format.

    `codes` holds one integer a slot, shape (rows, stride), as the format's `dequantise` reads it; `scales` and `zeros`
    as the format says, already as numbers; `options` are the keywords that made it, for `read` to make it again.
    """

    format: str
    shape: tuple[int, ...]
    stride: int
    codes: object
    scales: object
    zeros: object = None
    data: bytes
    options: tuple[tuple[str, object], ...] = ()

    @property
    def weights(self) -> int:
        """How many weights there are, padding not counted."""
        return prod(self.shape)

    @property
    def columns(self) -> int:
        """Weights in a row: the last dimension."""
        return self.shape[-1]

    @property
    def rows(self) -> int:
        """Rows: the product of all dimensions but the last."""
        return self.weights // self.columns

    @property
    def slots(self) -> int:
        """Places for weights, padding included."""
        return self.rows * self.stride

    @property
    def bits_per_weight(self) -> float:
        """Stored bits / weights: scales, zeros, metadata and the padding of short groups counted."""
        return 8 * len(self.data) / self.weights

    def option(self, name: str) -> object:
        """The value of one option. Raises KeyError for a name the format does not have."""
        return dict(self.options)[name]

    def slot(self, index: int) -> int:
        """The slot of the weight at flat index `index`."""
        row, column = divmod(index, self.columns)
        return row * self.stride + column

    def index(self, slot: int) -> int | None:
        """The flat index of the weight in `slot`; None where the slot is padding."""
        row, column = divmod(slot, self.stride)
        return row * self.columns + column if column < self.columns else None


def own(parts: tuple[Part, ...]) -> Callable[[int, int], tuple[Part, ...]]:
    """An `inside` that gives the same parts to every slot: a scale of a whole record."""
    return lambda slot, record: parts


def whole(role: str, name: str, size: int, decode: Callable[[int], float] | None = None) -> Part:
    """A part that is `size` whole bytes, little-endian."""
    return Part(role, name, tuple(Span(byte, 0, 8) for byte in range(size)), decode)
