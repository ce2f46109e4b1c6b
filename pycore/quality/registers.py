"""The packed bytes around one weight as 32-bit registers, each bit with its role and the weights that it helps to make."""

from dataclasses import dataclass

from pycore.pack import fields as pack_fields
from pycore.pack.fields import Field, Owner
from pycore.pack.formats import sections as sections_of
from pycore.pack.packed import Packed, Section

WINDOW = 32  # weights shown at once
WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Bit:
    """One bit: its value, and what it is. `role` is code, scale, zero, metadata or '' (of no weight in the window)."""

    value: int
    role: str
    weights: tuple[int, ...]  # flat indexes, those in the window


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """32 bits of the data as a little-endian processor loads them: `bits[0]` is the least significant (draw it rightmost).

    `byte` is the first of its four bytes; the last register of the data may have fewer than 32 bits. `section` names what
    the first byte belongs to: codes, scales, zeros, metadata, blocks, ...
    """

    byte: int
    section: str
    word: int
    bits: tuple[Bit, ...]

    @property
    def hexadecimal(self) -> str:
        """The word as eight hexadecimal digits (fewer where the data ends)."""
        return f"{self.word:0{-(-len(self.bits) // 4)}x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The window: weights first to last (flat indexes, the last one excluded), the registers that hold them, in the order
    of the data, and each weight's fields (code, scale, zero, metadata), the code first; 2:4 has none for a dropped weight.
    """

    first: int
    last: int
    registers: tuple[Register, ...]
    fields: tuple[tuple[Field, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What part of the stored bits one thing takes. role: code, scale, zero, metadata or padding."""

    role: str
    bits: float
    bits_per_weight: float


def window_of(packed: Packed, index: int, size: int = WINDOW) -> range:
    """Flat indexes of the `size` weights of the row around `index`, beginning at a multiple of `size` in the row."""
    row, column = divmod(index, packed.columns)
    start = column // size * size
    return range(row * packed.columns + start, row * packed.columns + min(start + size, packed.columns))


def view(packed: Packed, index: int) -> View:
    """The registers of the window around the weight at flat `index`. Raises InputError for an index outside the tensor."""
    sections = sections_of(packed)
    pack_fields.fields(packed, index, sections)  # refuses an index outside
    window = window_of(packed, index)
    found = tuple(pack_fields.fields(packed, one, sections) for one in window)
    owners: dict[int, tuple[str, list[int]]] = {}
    for one, parts in zip(window, found, strict=True):
        for part in parts:
            for bit in part.bits:
                owners.setdefault(bit, (part.role, []))[1].append(one)
    words = sorted({bit // WORD_BITS for bit in owners})
    return View(first=window.start, last=window.stop, fields=found,
                registers=tuple(register(packed.data, sections, word, owners) for word in words))


def register(data: bytes, sections: tuple[Section, ...], word: int, owners: dict[int, tuple[str, list[int]]]) -> Register:
    """The register number `word` of the data."""
    start = 4 * word
    part = data[start:start + 4]
    value = int.from_bytes(part, "little")
    bits = []
    for place in range(8 * len(part)):
        role, weights = owners.get(8 * start + place, ("", ()))
        bits.append(Bit(value >> place & 1, role, tuple(weights)))
    section = next(one.name for one in sections if one.start <= start < one.end)
    return Register(byte=start, section=section, word=value, bits=tuple(bits))


def owner(packed: Packed, bit: int) -> Owner:
    """Whose the bit at `bit` (8 x byte + bit) of the data is. Raises InputError for one outside."""
    return pack_fields.owner(packed, bit // 8, bit % 8, sections_of(packed))


def shares(packed: Packed) -> tuple[Share, ...]:
    """The stored bits by role; they add up to `packed.bits_per_weight`. What serves only padding slots is padding."""
    bits = {"code": 0.0, "scale": 0.0, "zero": 0.0, "metadata": 0.0}
    total = 8 * len(packed.data)
    filled = packed.weights / packed.slots
    for section in sections_of(packed):
        taken: dict[tuple[int, int], str] = {}
        for slot in range(1 if section.shared else section.record_slots):
            for part in section.inside(slot, 0):
                for span in part.spans:
                    for low in range(span.low, span.low + span.width):
                        taken.setdefault((span.byte, low), part.role)
        for role in taken.values():
            bits[role] += section.records * (filled if role == "code" else 1.0)
    used = [(role, count) for role, count in bits.items() if count]
    rest = total - sum(count for _, count in used)
    if rest > 1e-6 * total:
        used.append(("padding", rest))
    return tuple(Share(role=role, bits=count, bits_per_weight=count / packed.weights) for role, count in used)
