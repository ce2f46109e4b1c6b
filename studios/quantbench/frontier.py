"""Every format on these weights, and the models that were measured: error against true bits per weight."""

import math
from dataclasses import dataclass
from typing import Any

from studios.explain import help_field, plain
from studios.quantbench.names import also, figure, perplexity

FAMILIES = (("int", "integer"), ("nf", "normal float"), ("fp8", "float"), ("mxfp4", "float"), ("nvfp4", "float"),
            ("q", "GGUF"), ("bitnet", "ternary"), ("sparse", "2:4"))
LAYOUTS = ("nibble_order", "layout", "metadata")
CROWD = (4.0, 5.1)  # bits per weight: where most formats are
ORDER = ("integer", "normal float", "float", "GGUF", "ternary", "2:4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One configuration on the weights."""

    label: str = help_field("the format and its options")
    name: str = help_field("short: 'int4-g64'")
    family: str = help_field("one of ORDER")
    href: str = help_field("the question about it")
    asked: bool = help_field("whether it is the one shown above")
    bits: float = help_field("true bits per weight")
    sqnr: float = help_field("dB; infinite where nothing was lost")
    bits_text: str = help_field("bits, written")
    sqnr_text: str = help_field("SQNR, written")
    largest: str = help_field("largest error")
    best: bool = help_field("whether nothing here is as small and better")
    beaten: str = help_field("who does better, or why it is refused, or ''")
    kl: str = help_field("KL divergence that the same format cost the measured model, '–' where it was not measured")
    perplexity: str = help_field("the model's perplexity in it, or '–'")
    remark: str = help_field("what must be known of the measured figures, or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierView:
    """The section."""

    rows: tuple[Row, ...] = help_field("by bits per weight")
    drawn: bool = help_field("whether any of them has an error to draw")
    crowd: bool = help_field("whether any of those between 4 and 5 bits has")
    says: str = help_field("what this picture says about the asked format")
    model: str = help_field("the measured model whose figures stand beside, or ''")


def frontier(query: Any, bench: Any, model: Any) -> FrontierView:
    """The section from the bench, and a measured model (or None) beside it."""
    labels = {one.configuration.id: one.configuration.label for one in bench.points}
    rows = sorted((row(query, bench, one, labels, model) for one in bench.points),
                  key=lambda one: (one.bits != one.bits, one.bits, -one.sqnr if one.sqnr == one.sqnr else 0.0, one.name))
    asked = next((one for one in rows if one.asked), None)
    return FrontierView(rows=tuple(rows), says=says(asked), model=plain(model.label, 60) if model else "",
                        drawn=any(math.isfinite(one.sqnr) for one in rows),
                        crowd=any(math.isfinite(one.sqnr) and CROWD[0] <= one.bits <= CROWD[1] for one in rows))


def row(query: Any, bench: Any, point: Any, labels: dict[str, str], model: Any) -> Row:
    """One point."""
    one = point.configuration
    used = dict(bench.inspection.options)
    mine = default_options(one.format) | dict(one.options)
    asked = one.format == query.format and all(used.get(name) == said(value) for name, value in mine.items())
    refused = bool(point.fault)
    found = measured_as(model, one.format, mine)
    known = found and found.kl_divergence
    return Row(
        label=one.label, name=one.id, family=family(one.format), href=also(query, **options(one)), asked=asked,
        bits=point.bits_per_weight, sqnr=point.sqnr_db, bits_text=figure(point.bits_per_weight, 4),
        sqnr_text=figure(point.sqnr_db, 3), largest=figure(point.max_error, 3),
        best=not point.dominated_by and not refused and point.sqnr_db == point.sqnr_db,
        beaten=point.fault or (f"{labels[point.dominated_by]} does better" if point.dominated_by else ""),
        kl="lossless" if found and found.lossless else figure(known.value if known else None, 3),
        perplexity=perplexity(found.perplexity.value if found else None),
        remark="by construction: the model's weights lie on this grid already" if found and found.lossless else "")


def measured_as(model: Any, format_id: str, options: dict[str, object]) -> Any:
    """The measured configuration that is a format with these options and nothing else; None where there is none."""
    found = model.configurations if model else ()
    return next((one for one in found if one.format == format_id and same_numbers(one, options)), None)


def same_numbers(one: Any, options: dict[str, object]) -> bool:
    """Whether a measured configuration has these options of its format; how bytes are laid out changes no number."""
    own = {name: said(value) for name, value in default_options(one.format).items()}
    wanted = own | {name: said(value) for name, value in options.items()}
    mine = own | dict(one.options)
    return as_it_is(one) and all(mine[name] == wanted[name] for name in own if name not in LAYOUTS)


def as_it_is(one: Any) -> bool:
    """Whether the format alone was measured: no method, nothing trained for it, inputs left alone."""
    return one.method in ("", "nearest") and not one.activations and not one.trained


def family(format_id: str) -> str:
    """'integer', 'float', ..."""
    return next(name for start, name in FAMILIES if format_id.startswith(start))


def default_options(format_id: str) -> dict[str, object]:
    """What a format's options are where none is said."""
    from pycore.pack.formats import format_of

    return {name: values[0] for name, values in format_of(format_id).options}


def said(value: object) -> str:
    """An option's value as the inspection writes it."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def options(one: Any) -> dict[str, str]:
    """The fields of the question that ask for a configuration; those it leaves open go back to the format's own."""
    from pycore.systems.quantbench_question import AUTO

    names = {"block": "group"}
    asked = {names.get(name, name): said(value) for name, value in one.options}
    free = {name: AUTO for name in ("group", "granularity", "symmetric", "levels", "double")}
    return {"format": one.format} | free | asked


def says(asked: Row | None) -> str:
    """What the picture says about the format that is shown above."""
    if asked is None or not math.isfinite(asked.bits):
        return "Each point is one format on the weights above, scales, zeros and metadata counted."
    if asked.best:
        return f"{asked.label} is on the frontier: nothing here is as small and loses less on these weights."
    return f"{asked.label} is not on the frontier: {asked.beaten} on these weights, with no more bits."
