"""The register view: which bits of which bytes hold weight i's code, scale, zero and metadata, and whose a bit is."""

from dataclasses import dataclass

from pycore.errors import InputError
from pycore.pack.packed import Packed, Part, Section, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Bits that help to make one weight: role, name, where (bytes counted from the start of the data), and their value.

    `raw` is the bits as an unsigned integer, `value` the number they stand for.
    """

    role: str
    name: str
    section: str
    spans: tuple[Span, ...]
    raw: int
    value: float

    @property
    def width(self) -> int:
        """How many bits the field has."""
        return sum(span.width for span in self.spans)

    @property
    def bits(self) -> tuple[int, ...]:
        """The positions of its bits in the data (8 x byte + bit), least significant first."""
        return tuple(8 * span.byte + span.low + bit for span in self.spans for bit in range(span.width))

    def as_dict(self) -> dict:
        """Plain data: the bits from the least significant up, as [byte, lowest bit, width]."""
        return {"role": self.role, "name": self.name, "section": self.section, "raw": self.raw, "value": self.value,
                "spans": [[span.byte, span.low, span.width] for span in self.spans]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a bit is: its role, and the flat indexes of the weights that it helps to make (none: padding)."""

    role: str
    name: str
    section: str
    weights: tuple[int, ...]


def fields(packed: Packed, index: int, sections: tuple[Section, ...]) -> tuple[Field, ...]:
    """Every field of the weight at flat `index`, code first. Raises InputError for an index outside the tensor."""
    if not 0 <= index < packed.weights:
        raise InputError("index", index, f"the tensor has weights 0 to {packed.weights - 1:,}")
    slot = packed.slot(index)
    return tuple(field(packed.data, section, part, record) for section in sections
                 for record, part in parts(section, slot))


def parts(section: Section, slot: int) -> list[tuple[int, Part]]:
    """(place of the record, part) of what a section holds for a slot."""
    record, within = divmod(slot, section.record_slots)
    place = record if section.place is None else int(section.place[record])
    return [(place, part) for part in section.inside(within, record)]


def field(data: bytes, section: Section, part: Part, place: int) -> Field:
    """A part of the record stored at `place`, read."""
    base = section.start + place * section.record_bytes
    spans = tuple(Span(base + span.byte, span.low, span.width) for span in part.spans)
    raw = read_bits(data, spans)
    return Field(role=part.role, name=part.name, section=section.name, spans=spans, raw=raw,
                 value=raw if part.decode is None else part.decode(raw))


def read_bits(data: bytes, spans: tuple[Span, ...]) -> int:
    """The bits of `spans` as one unsigned integer, first span least significant."""
    raw = shift = 0
    for span in spans:
        raw |= (data[span.byte] >> span.low & (1 << span.width) - 1) << shift
        shift += span.width
    return raw


def owner(packed: Packed, byte: int, bit: int, sections: tuple[Section, ...], most: int = 4096) -> Owner:
    """Whose bit `bit` of byte `byte` is; of a scale of very many weights the first `most` are named.

    Raises InputError for a bit outside the data.
    """
    if not (0 <= byte < len(packed.data) and 0 <= bit < 8):
        raise InputError("bit", f"{byte}.{bit}", f"the data has bytes 0 to {len(packed.data) - 1:,}, bits 0 to 7")
    section = next(one for one in sections if one.start <= byte < one.end)
    place = (byte - section.start) // section.record_bytes
    record = place if section.origin is None else int(section.origin[place])
    first = record * section.record_slots
    slots = range(first, min(first + section.record_slots, packed.slots))
    if section.shared:
        part = section.inside(0, record)[0]
        return named(packed, section, part, [slot for slot in slots[:most]])
    relative = (byte - section.start) % section.record_bytes
    found = [(slot, part) for slot in slots for part in section.inside(slot - first, record) if holds(part, relative, bit)]
    if not found:
        return Owner(role="padding", name="padding", section=section.name, weights=())
    return named(packed, section, found[0][1], [slot for slot, part in found[:most]])


def holds(part: Part, byte: int, bit: int) -> bool:
    """Whether a part has that bit of that byte of its record."""
    return any(span.byte == byte and span.low <= bit < span.low + span.width for span in part.spans)


def named(packed: Packed, section: Section, part: Part, slots: list[int]) -> Owner:
    """The owner of a bit from the slots that share it, padding left out."""
    weights = tuple(index for slot in slots if (index := packed.index(slot)) is not None)
    return Owner(role=part.role, name=part.name, section=section.name, weights=weights)
