"""GPTQ column after column: the error made, what it pushed into the columns to come, and where the variants end."""

import math
from dataclasses import dataclass
from typing import Any

from studios.explain import help_field
from studios.marks import percent
from studios.quantbench.bits import Choice
from studios.quantbench.names import also, figure

LEVELS = ((-0.5, "d1"), (-0.12, "d2"), (0.12, "d3"), (0.5, "d4"))
BITS = (2, 3, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A matrix as squares: brown below zero, blue above."""

    title: str = help_field("what it shows")
    paths: tuple[tuple[str, str], ...] = help_field("(step of the scale, path)")
    most: str = help_field("the magnitude of the strongest colour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to quantise the layer."""

    label: str = help_field("its name")
    objective: str = help_field("squared error of the layer's outputs")
    ratio: str = help_field("against rounding to nearest")
    width: str = help_field("its bar, as a percentage of the worst")
    style: str = help_field("'best', 'worse' or ''")
    shown: bool = help_field("whether it is the one stepped through")
    fault: str = help_field("why it has no figures, or ''")
    value: float = help_field("the objective")


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkView:
    """The section."""

    width: int = help_field("columns of the layer")
    height: int = help_field("rows")
    step: int = help_field("columns done")
    says: str = help_field("what this step does")
    verdict: str = help_field("how the variants end")
    done: str = help_field("path of the marks over the columns done")
    column: int = help_field("the column of this step, or -1")
    error: Picture = help_field("working weights less the weights")
    pushed: Picture = help_field("what this step changed")
    variants: tuple[Variant, ...] = help_field("where each ends")
    partial: tuple[float, ...] = help_field("squared output error after each step")
    moves: tuple[tuple[str, str], ...] = help_field("(text, link): first, back, on, last")
    switches: tuple[Choice, ...] = help_field("act-order and the bug")
    bits: tuple[Choice, ...] = help_field("bits of the grid")


def walk_view(query: Any, walk: Any) -> WalkView:
    """The section from a walk."""
    rows, columns = walk.weights.shape
    done = walk.order[:walk.done]
    return WalkView(
        width=columns, height=rows, step=walk.done, partial=walk.partial, says=says(walk), verdict=verdict(walk.variants),
        done="".join(f"M{column} 0h1v1h-1z" for column in sorted(done)), column=walk.column,
        error=picture("What every weight is off by now", (walk.working - walk.weights).tolist()),
        pushed=picture("What this step pushed on", walk.pushed.tolist()), variants=variants(walk.variants, walk.chosen),
        moves=moves(query, walk.done, columns), bits=tuple(
            Choice(text=f"{bits} bits", href=also(query, bits=bits), chosen=query.bits == bits) for bits in BITS),
        switches=(Choice(text="act-order", href=also(query, act_order=not query.act_order), chosen=query.act_order),
                  Choice(text="the common bug: plain inverse Hessian", href=also(query, bug=not query.bug),
                         chosen=query.bug)))


def picture(title: str, values: list[list[float]]) -> Picture:
    """Squares in five steps around zero; a path a step."""
    most = max((abs(value) for line in values for value in line), default=0.0)
    paths: dict[str, list[str]] = {}
    for y, line in enumerate(values):
        for x, value in enumerate(line):
            style = level(value / most) if most else "d3"
            if style != "d3":
                paths.setdefault(style, []).append(f"M{x} {y}h1v1h-1z")
    return Picture(title=title, most=figure(most, 3),
                   paths=tuple((style, "".join(found)) for style, found in sorted(paths.items())))


def level(share: float) -> str:
    """The step of the diverging scale that a share of the largest magnitude is on."""
    return next((style for end, style in LEVELS if share < end), "d6")


def says(walk: Any) -> str:
    """What this step does."""
    columns = walk.weights.shape[1]
    if walk.done == 0:
        return f"Nothing is quantised yet: {columns} columns to go."
    total = math.fsum(abs(float(value)) for value in walk.error)
    moved = sum(1 for value in walk.factor if value) - 1
    place = f"Step {walk.done} of {columns}: column {walk.column} is rounded"
    if moved <= 0:
        return f"{place}; no column is left to make its error good."
    return (f"{place}, and its error (scaled, {figure(total, 3)} over the rows) is spread over the {moved} columns still to "
            "come.")


def verdict(found: tuple[Any, ...]) -> str:
    """How the variants end, against rounding to nearest."""
    ratios = {one.name: one.ratio for one in found}
    good, how = min((ratios.get("gptq", math.nan), "GPTQ"), (ratios.get("gptq-act-order", math.nan), "GPTQ with act-order"))
    bad = ratios.get("bug", math.nan)
    if good != good or bad != bad:
        return ""
    if good > 0.995:
        return "With these inputs nothing is to be gained: rounding to nearest is already the best."
    lost = f"{figure(bad, 3)} times" + (", worse than rounding" if bad > 1 else "")
    return (f"{how} leaves {figure(good, 3)} times the output error of rounding to nearest; with the plain inverse Hessian, "
            f"the bug that code in use has, {lost}.")


def variants(found: tuple[Any, ...], shown: str) -> tuple[Variant, ...]:
    """Where each ends; bars of the ratio to rounding."""
    most = max((one.ratio for one in found if math.isfinite(one.ratio)), default=1.0)
    best = min((one.objective for one in found if math.isfinite(one.objective)), default=0.0)
    return tuple(Variant(
        label=one.label, objective=figure(one.objective, 3), ratio=figure(one.ratio, 3), width=percent(one.ratio, most),
        style="best" if one.objective == best else "worse" if one.ratio > 1.005 else "", shown=one.name == shown,
        fault=one.fault, value=one.objective) for one in found)


def moves(query: Any, done: int, columns: int) -> tuple[tuple[str, str], ...]:
    """Links to other steps."""
    return (("first", also(query, step=0)), ("back", also(query, step=max(done - 1, 0))),
            ("on", also(query, step=min(done + 1, columns))), ("last", also(query, step=columns)))
