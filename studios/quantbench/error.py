"""What the format cost: tiles, stored bits by role, error by block, and what the methods buy."""

import math
from dataclasses import dataclass
from typing import Any

from studios.explain import Ledger, Number, help_field, plain
from studios.marks import percent
from studios.quantbench.bits import SHORT, Choice
from studios.quantbench.names import ROLES, also, figure

MOST_BLOCKS = 512
STEPS = 7
NAMES = {"plain": "the format alone", "rotation": "rotated by Hadamard", "smoothquant": "SmoothQuant", "awq": "AWQ",
         "gptq": "GPTQ", "chosen": "as chosen"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Stored bits of one role, as a piece of a bar."""

    style: str = help_field("class of its colour")
    name: str = help_field("codes, scales, ...")
    text: str = help_field("bits per weight")
    x: str = help_field("left edge, as a percentage")
    width: str = help_field("width")


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRow:
    """What one method buys."""

    name: str = help_field("the method")
    weights: str = help_field("SQNR of the weights")
    outputs: str = help_field("SQNR of the layer's outputs")
    gain: str = help_field("against the plain format, signed")
    style: str = help_field("'best', 'worse' or ''")
    x: str = help_field("left edge of its bar, as a percentage of the span around no gain")
    width: str = help_field("width of its bar")
    note: str = help_field("what was chosen on the way")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Error by block: a row of squares a row of weights."""

    title: str = help_field("'SQNR of each group of 64'")
    paths: tuple[tuple[str, str], ...] = help_field("(step of the scale, path)")
    width: int = help_field("blocks in a row")
    height: int = help_field("rows")
    says: str = help_field("best and worst, and where the worst is")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView:
    """The section."""

    sqnr: Number | None = help_field("SQNR")
    bits: Number = help_field("true bits per weight")
    compression: Number = help_field("against 16-bit weights")
    figures: tuple[tuple[str, str], ...] = help_field("(name, value) of the rest")
    uniform: Number | None = help_field("what a uniform quantiser would reach")
    textbook: Number | None = help_field("6.02 dB a bit")
    stored: tuple[Stored, ...] = help_field("stored bits by role")
    heat: Blocks | None = help_field("error by block")
    methods: tuple[MethodRow, ...] = help_field("methods, the plain format first")
    switches: tuple[Choice, ...] = help_field("methods that change the registers and the figures above")
    inputs: tuple[Choice, ...] = help_field("what the inputs look like")
    notes: tuple[str, ...] = help_field("what was chosen, refused, saturated or not used")


def error_view(query: Any, bench: Any, ledger: Ledger) -> ErrorView:
    """The section from the bench."""
    found = bench.inspection
    ledger.section("Bits and error")
    return ErrorView(
        sqnr=found.sqnr and ledger.number(found.sqnr, decibels), bits=ledger.number(found.bits_per_weight, bits_text),
        compression=ledger.number(found.compression, lambda value: f"{figure(value)} ×"),
        uniform=found.uniform_sqnr and ledger.number(found.uniform_sqnr, decibels),
        textbook=found.textbook_sqnr and ledger.number(found.textbook_sqnr, decibels), figures=rest(found),
        stored=stored(found), heat=heat(found, bench.weights.rows), methods=methods(bench.methods),
        switches=switches(query), inputs=inputs(query), notes=notes(found, bench))


def decibels(value: float) -> str:
    """A level; infinite where nothing was lost."""
    return "lossless" if value == math.inf else figure(value, 3, "dB")


def bits_text(value: float) -> str:
    return f"{figure(value, 4)} bits"


def rest(found: Any) -> tuple[tuple[str, str], ...]:
    """The other measures."""
    error = found.error
    known = () if error is None else (
        ("cosine", figure(error.cosine, 4)), ("largest error", figure(error.max_error, 3)),
        ("mean squared error", short_exponent(error.mean_squared_error)))
    return (*known, ("saturated", f"{found.saturated:,} of {found.packed.weights:,}"),
            ("bytes", f"{len(found.packed.data):,}"))


def short_exponent(value: float) -> str:
    return f"{value:.3g}".replace("e-0", "e−").replace("-", "−")


def stored(found: Any) -> tuple[Stored, ...]:
    """The bar of stored bits."""
    total, at, pieces = found.bits_per_weight.value, 0.0, []
    for one in found.shares:
        pieces.append(Stored(style=SHORT.get(one.role, "o"), name=ROLES[one.role], text=figure(one.bits_per_weight, 3),
                             x=percent(at, total), width=percent(one.bits_per_weight, total)))
        at += one.bits_per_weight
    return tuple(pieces)


def heat(found: Any, rows: int) -> Blocks | None:
    """Squares by block, pale where little was lost; None where there is one block alone, or too many to draw."""
    blocks = [one.sqnr_db for one in found.blocks]
    known = [value for value in blocks if math.isfinite(value)]
    if len(blocks) < 2 or len(blocks) > 8 * MOST_BLOCKS or not known:
        return None
    across = len(blocks) // rows
    best, worst = max(known), min(known)
    paths: dict[str, list[str]] = {}
    for place, value in enumerate(blocks):
        paths.setdefault(step(value, worst, best), []).append(f"M{place % across} {place // across}h1v1h-1z")
    where = blocks.index(worst)
    each = "row" if across == 1 else f"group of {found.block_columns}"
    return Blocks(title=f"SQNR of each {each}", width=across, height=rows,
                paths=tuple((style, "".join(pieces)) for style, pieces in sorted(paths.items())),
                says=f"From {figure(worst, 3, 'dB')} (strongest colour: row {where // across:,}"
                     + (f", group {where % across:,}" if across > 1 else "") + f") to {figure(best, 3, 'dB')} (faintest).")


def step(value: float, worst: float, best: float) -> str:
    """'p1' where most was kept, 'p7' where least; 'o' where nothing can be said."""
    if not math.isfinite(value):
        return "p1" if value > 0 else "o"
    share = (best - value) / (best - worst) if best > worst else 0.0
    return f"p{1 + min(int(share * STEPS), STEPS - 1)}"


def methods(found: tuple[Any, ...]) -> tuple[MethodRow, ...]:
    """Bars from the middle: gained to the right, lost to the left."""
    known = [one for one in found if math.isfinite(one.gain_db)]
    span = max((abs(one.gain_db) for one in known), default=0.0) or 1.0
    best = max((one.gain_db for one in known), default=0.0)
    made = []
    for one in found:
        gain = one.gain_db if math.isfinite(one.gain_db) else 0.0
        style = "best" if gain == best > 0 else "worse" if gain < -0.005 else ""
        made.append(MethodRow(name=NAMES.get(one.name, one.label), weights=figure(one.weight_sqnr_db, 3, "dB"),
                           outputs=figure(one.output_sqnr_db, 3, "dB"), style=style, note=one.note,
                           gain="" if one.name == "plain" else signed(one.gain_db),
                           x=percent(span + min(gain, 0.0), 2 * span), width=percent(abs(gain), 2 * span)))
    return tuple(made)


def signed(value: float) -> str:
    """'+1.2 dB'."""
    if value != value:
        return "–"
    text = f"{abs(value):.2f}"
    return f"{'−' if value < 0 and float(text) else '+'}{text} dB"


def switches(query: Any) -> tuple[Choice, ...]:
    """The methods that can be switched on."""
    return tuple(Choice(text=text, href=also(query, **{name: not getattr(query, name)}), chosen=getattr(query, name))
                 for name, text in (("rotation", "Hadamard rotation"), ("smoothing", "SmoothQuant"), ("awq", "AWQ")))


def inputs(query: Any) -> tuple[Choice, ...]:
    """What the layer's inputs look like."""
    from pycore.quality.inputs import INPUTS

    return tuple(Choice(text=name.replace("-", " "), href=also(query, inputs=name), chosen=name == query.inputs)
                 for name in INPUTS)


def notes(found: Any, bench: Any) -> tuple[str, ...]:
    """Remarks in the order a reader needs them."""
    said = [plain(text) for text in (*bench.weights.remarks, *found.notes)]
    if bench.unused:
        said.append(f"{found.label} has no {', '.join(bench.unused).replace('_', ' ')}: not used.")
    if found.non_finite:
        said.append(f"{found.non_finite:,} of the weights are NaN or infinity: the format has codes for them, and no error "
                    "can be measured.")
    if found.saturated:
        said.append(f"{found.saturated:,} weights lie beyond the outermost level of their scale by more than half of its "
                    "step.")
    return tuple(said)
