"""The weights of the window with their sliders, and the registers that hold them, bit by bit."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from pycore.pack.formats import FORMATS
from studios.explain import help_field, plain
from studios.quantbench.names import ROLES, also, figure, plain_number, rest_of, small

SHORT = {"code": "c", "scale": "s", "zero": "z", "metadata": "m", "": "o"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several, as a link."""

    text: str = help_field("its name")
    href: str = help_field("the question with it")
    chosen: bool = help_field("whether it is what is shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One weight of the window."""

    index: int = help_field("flat index")
    local: int = help_field("place in the window, 0 to 31: bits and weights find each other by it")
    href: str = help_field("the question that looks at it")
    style: str = help_field("'asked', 'dropped', 'cut', or several, or ''")
    value: str = help_field("as a control takes it")
    code: str = help_field("its bits as a number, or '×' where 2:4 dropped it")
    restored: str = help_field("what the bytes stand for")
    slides: bool = help_field("whether a slider can hold it (it is finite)")
    y: str = help_field("height of what was restored, as a percentage from above")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A 32-bit register."""

    where: str = help_field("'byte 8'")
    section: str = help_field("what its first byte belongs to")
    hexadecimal: str = help_field("its value")
    html: Markup = help_field("its bits, the most significant first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One field of the weight that is looked at."""

    role: str = help_field("code, scale, zero or metadata")
    name: str = help_field("its name in the format")
    where: str = help_field("'byte 8, bits 4 to 7'")
    raw: str = help_field("its bits")
    value: str = help_field("what they stand for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bits:
    """The section."""

    title: str = help_field("which weights")
    label: str = help_field("the format")
    formats: tuple[Choice, ...] = help_field("every format")
    presets: tuple[Choice, ...] = help_field("what the weights are drawn from")
    before: str = help_field("link to the window before, or ''")
    after: str = help_field("link to the window after, or ''")
    cells: tuple[Cell, ...] = help_field("the weights")
    limit: str = help_field("both ends of the sliders")
    step: str = help_field("a slider's step")
    words: tuple[Word, ...] = help_field("the registers")
    legend: tuple[tuple[str, str], ...] = help_field("(class, what it is) of the roles that occur")
    chosen: str = help_field("'weight 17: row 0, column 17'")
    lines: tuple[Line, ...] = help_field("its fields")
    formula: str = help_field("how the fields make the weight")
    was: str = help_field("the weight")
    restored: str = help_field("what the bytes stand for")
    off: str = help_field("the difference")
    owner: str = help_field("whose the chosen bit is, or ''")
    other: Choice | None = help_field("the other packing of ternary weights, as a link")
    twin: tuple[Word, ...] = help_field("the registers of the other packing, or ()")
    twin_note: str = help_field("what is particular about it")
    note: str = help_field("what is particular about the format, or ''")


def bits(query: Any, bench: Any) -> Bits:
    """The section from the bench."""
    view, inspection, weights = bench.view, bench.inspection, bench.weights
    window = range(view.first, view.last)
    given = [float(weights.values.flat[index]) for index in window]
    restored = [float(inspection.restored.flat[index]) for index in window]
    limit = limit_of(given, {int(index) - view.first for index in re.findall(r"(\d+)\s*[=:]", query.edits)})
    chosen = min(max(query.weight, view.first), view.last - 1)
    place = chosen - view.first
    rest = rest_of(query, "weight")
    return Bits(
        title=title(weights, window), label=inspection.label, formats=formats(query),
        presets=presets(query, weights), before=also(query, weight=max(view.first - 32, 0)) if view.first else "",
        after=also(query, weight=view.last) if view.last < weights.count else "",
        cells=tuple(cell(index, number, given[number], restored[number], view.fields[number], limit, chosen, rest,
                         inspection.format) for number, index in enumerate(window)),
        limit=plain_number(limit), step=plain_number(limit / 100),
        words=tuple(word(one, view.first, chosen, rest_of(query)) for one in view.registers),
        legend=legend(view.registers), chosen=f"Weight {chosen:,}: row {chosen // weights.columns:,}, column "
                                              f"{chosen % weights.columns:,}",
        lines=tuple(line(one) for one in view.fields[place]), formula=inspection.formula, was=small(given[place], 6),
        restored=small(restored[place], 6), off=difference(given[place], restored[place]),
        owner=owner(query.bit, bench.owner), other=other(query, bench.twin), note=note(inspection.format),
        twin=twin(query, bench.twin, view.first, chosen), twin_note=note(bench.twin[0].format) if bench.twin else "")


def twin(query: Any, found: Any, first: int, chosen: int) -> tuple[Word, ...]:
    """The same weights in the other packing, its bits linked to a question about it."""
    if found is None:
        return ()
    rest = f"{rest_of(query, 'format')}format={found[0].format}&"
    return tuple(word(one, first, chosen, rest) for one in found[1].registers)


def title(weights: Any, window: range) -> str:
    """Which weights, of how many."""
    first, last = window[0], window[-1]
    row = f", row {first // weights.columns:,}" if weights.rows > 1 else ""
    return f"Weights {first:,} to {last:,} of {weights.count:,}{row}"


def limit_of(values: list[float], edited: set[int]) -> float:
    """Both ends of the sliders: 1, 2 or 5 times a power of ten above the largest magnitude, those set by hand left out: a
    scale that followed the weight being dragged would run away from the pointer."""
    kept = [value for place, value in enumerate(values) if place not in edited] or values
    most = 1.3 * max((abs(value) for value in kept if math.isfinite(value)), default=0.0)
    if not 1e-30 < most < 1e30:
        return 1.0
    power = math.floor(math.log10(most))
    return next(float(f"{step}e{power}") for step in (1, 2, 5, 10) if float(f"{step}e{power}") >= most)


def cell(index: int, local: int, value: float, restored: float, found: tuple, limit: float, chosen: int, rest: str,
         format_id: str) -> Cell:
    """One weight; 2:4 keeps no code of those it drops."""
    codes = [one for one in found if one.role == "code"]
    styles = ["asked"] * (index == chosen) + ["dropped"] * (not codes)
    styles += ["four"] * (format_id == "sparse-2:4" and local % 4 == 0)
    height = 50.0 - 50.0 * min(max(restored / limit, -1.0), 1.0) if math.isfinite(restored) else 50.0
    return Cell(index=index, local=local, href=f"?{rest}weight={index}", style=" ".join(styles), value=plain_number(value),
                code=code_text(codes[0], format_id) if codes else "×", restored=small(restored, 3),
                slides=math.isfinite(value), y=f"{height:.1f}%")


def code_text(found: Any, format_id: str) -> str:
    """A code as the format's papers write it: a whole number, or the bits of a small float in hexadecimal."""
    if format_id.startswith(("fp", "mx", "nv", "sparse")):
        return f"{found.raw:0{-(-found.width // 4)}x}"
    return small(float(found.value))


def word(register: Any, first: int, chosen: int, rest: str) -> Word:
    """A register's bits as they are drawn: the most significant on the left."""
    pieces = []
    for place in range(len(register.bits) - 1, -1, -1):
        one = register.bits[place]
        mine = [weight - first for weight in one.weights]
        style = SHORT[one.role] + (f" k{mine[0] % 2}" if one.role == "code" and mine else "")
        style += " on" if chosen in one.weights else ""
        owners = f' data-l="{" ".join(map(str, mine))}"' if mine else ""
        pieces.append(f'<a class="b {style}"{owners} href="?{rest}bit={8 * register.byte + place}" data-also tabindex="-1">'
                      f"{one.value}</a>")
    text = f"byte {register.byte:,}"
    return Word(where=text, section=register.section, hexadecimal=register.hexadecimal,
                html=Markup("".join(pieces)))  # made of numbers, and of links that are escaped already


def legend(registers: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    """The roles that occur, and bits of other weights."""
    roles = {bit.role for register in registers for bit in register.bits}
    named = [(SHORT[role], ROLES[role]) for role in ROLES if role in roles]
    return (*named, *([("o", "of other weights, or padding")] if "" in roles else []))


def line(found: Any) -> Line:
    """One field: bits, place, meaning."""
    where = ", ".join(f"byte {span.byte:,}, bit{'' if span.width == 1 else 's'} {span.low}"
                      + (f" to {span.low + span.width - 1}" if span.width > 1 else "") for span in found.spans[:2])
    if all(span.width == 8 for span in found.spans):
        first, last = found.spans[0].byte, found.spans[-1].byte
        where = f"byte {first:,}" if first == last else f"bytes {first:,} to {last:,}"
    return Line(role=found.role, name=found.name, where=where, raw=f"{found.raw:0{found.width}b}",
                value=meaning(found))


def meaning(found: Any) -> str:
    """The number that a field's bits stand for; of 2:4's metadata, which of the four weights they keep."""
    if found.name == "kept indexes":
        return f"keeps {found.raw & 3} and {found.raw >> 2} of 0 to 3"
    return small(float(found.value), 6)


def difference(value: float, restored: float) -> str:
    """How far off the restored weight is."""
    return small(restored - value) if math.isfinite(value) and math.isfinite(restored) else "–"


def owner(bit: int, found: Any) -> str:
    """Whose the chosen bit is, in words."""
    if found is None:
        return ""
    if not found.weights:
        return f"Bit {bit:,} is padding of {found.section}."
    first, last = found.weights[0], found.weights[-1]
    whose = f"weight {first:,}" if first == last else f"{len(found.weights):,} weights, {first:,} to {last:,}"
    return f"Bit {bit:,} (byte {bit // 8:,}, bit {bit % 8}) is part of the {found.name} of {whose}."


def formats(query: Any) -> tuple[Choice, ...]:
    """Every format as a link."""
    return tuple(Choice(text=one.label.removeprefix("GGUF "), href=also(query, format=one.id), chosen=one.id == query.format)
                 for one in FORMATS)


def presets(query: Any, weights: Any) -> tuple[Choice, ...]:
    """What weights are drawn from; a choice puts typed weights and files away."""
    from pycore.quality.weights import PRESETS

    return tuple(Choice(text=name.replace("-", " "), href=also(query, preset=name, values="", edits="", file="", tensor=""),
                        chosen=weights.source == "preset" and name == query.preset) for name in PRESETS)


def other(query: Any, found: Any) -> Choice | None:
    """The same ternary weights in the other packing."""
    return None if found is None else Choice(
        text=f"The same weights, {found[0].label.split(', ')[1]}", href=also(query, format=found[0].format), chosen=False)


def note(format_id: str) -> str:
    """What a reader should know before reading the bits."""
    return {
        "sparse-2:4": "Of every four weights two survive (×: dropped). Their values are stored, and four bits of metadata "
                      "say which two they were.",
        "bitnet-5in8": "Five weights share a byte: its eight bits are one number in base 3, so that every bit belongs to "
                       "all five.",
        "bitnet-2bit": "Two bits could say four things; three are used.",
        "q4_k": "A super-block of 256: eight groups with 6-bit scales and minima, packed across twelve bytes.",
        "q6_k": "A super-block of 256: four low bits of a code lie in one place, two high bits in another.",
        "nvfp4": "Two scales: one FP8 for sixteen weights, one for the tensor.",
        "mxfp4": "One power of two for 32 weights.",
    }.get(format_id, "")


def shares_text(shares: Iterable[Any]) -> str:
    """'4 codes + 0.25 scales'."""
    return " + ".join(f"{figure(one.bits_per_weight)} {ROLES.get(one.role, plain(one.role, 20))}" for one in shares)
