"""The heat map: 52 languages under every tokenizer, and the same summed up by script and by family."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pycore.atlas.grid import Cell as AtlasCell
from pycore.atlas.grid import Grid, Group
from pycore.atlas.kinds import KINDS
from pycore.atlas.table import tokenizer
from pycore.units import significant
from studios.explain import help_field
from studios.token_atlas.names import also, rest_of, short, standing

STEPS = 7


class Cell(NamedTuple):
    """One language under one tokenizer (a tuple, since there are hundreds).

    `text`: the value or '–'; `style`: step of the scale, 'p1' (best) to 'p7', '' without a value, and 'u' where the count is
    unofficial; `value`: for sorting; `title`: its interval or ''; `href`: opens its story.
    """

    text: str
    style: str
    value: str
    title: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One tokenizer."""

    name: str = help_field("short name")
    label: str = help_field("the whole name, with a remark where there is one")
    standing: str = help_field("'unofficial, counts only', 'official, retired', or ''")
    official: bool = help_field("whether its own vocabulary was run")
    median: str = help_field("median over the languages shown")
    worst: str = help_field("the worst value")
    worst_language: str = help_field("and whose it is")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One language."""

    name: str = help_field("the language")
    code: str = help_field("its FLORES code")
    script: str = help_field("its script")
    family: str = help_field("its family")
    asked: bool = help_field("whether the story is about it")
    cells: tuple[Cell, ...] = help_field("in the order of the columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Medians of a script or a family."""

    name: str = help_field("'Devanagari'")
    languages: str = help_field("how many of the languages shown")
    cells: tuple[tuple[str, str, str], ...] = help_field("(text, style, value for sorting) by column")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several ways to look, as a link."""

    text: str = help_field("what it is called")
    href: str = help_field("the link; only the named fields change")
    chosen: bool = help_field("whether it is what is shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """The heat map as a table."""

    label: str = help_field("the measure")
    says: str = help_field("what a cell means")
    columns: tuple[Column, ...] = help_field("tokenizers, the unofficial ones last")
    rows: tuple[Row, ...] = help_field("languages as they are sorted")
    count: str = help_field("'52 languages', or '8 of 52 languages'")
    legend: tuple[tuple[str, str], ...] = help_field("(style, values of the cells on this step) from fair to dear")
    measures: tuple[Choice, ...] = help_field("measures to switch to")
    sorts: tuple[Choice, ...] = help_field("orders to switch to")
    script_names: tuple[str, ...] = help_field("scripts of the rows, for the filter")
    family_names: tuple[str, ...] = help_field("families of the rows, for the filter")
    scripts: tuple[Summary, ...] = help_field("medians by script")
    families: tuple[Summary, ...] = help_field("medians by family")
    everything: str = help_field("a link that lifts the filters, or '' where none is set")


def heat(answer: Any) -> Heat:
    """The matrix of an answer."""
    grid: Grid = answer.matrix
    query = answer.query
    story = answer.story.language.code, answer.story.tokenizer.name
    base = "?" + rest_of(query, "language", "tokenizer")
    rows = tuple(Row(
        name=line.language.name, code=line.language.code, script=line.language.script_name, family=line.language.family,
        asked=line.language.code == story[0], cells=tuple(cell(one, base, story) for one in line.cells))
        for line in grid.rows)
    filtered = query.scripts or query.families or query.find
    return Heat(
        label=grid.label, says=grid.says, columns=tuple(map(column, grid.columns)), rows=rows,
        count=f"{len(rows)} languages" if len(rows) == grid.of else f"{len(rows)} of {grid.of} languages",
        legend=legend(grid), measures=measures(query), sorts=sorts(query),
        script_names=distinct(row.script for row in rows), family_names=distinct(row.family for row in rows),
        scripts=summaries(grid.scripts), families=summaries(grid.families),
        everything=also(query, scripts="", families="", find="") if filtered else "")


def column(one: Any) -> Column:
    """A tokenizer's head and summary."""
    facts = tokenizer(one.name)
    return Column(name=short(one.name), label=f"{one.label}: {one.note}" if one.note else one.label,
                  standing=standing(facts), official=one.exact, median=one.median_text, worst=one.worst_text,
                  worst_language=one.worst_language)


def cell(one: AtlasCell, base: str, story: tuple[str, str]) -> Cell:
    """One cell; that of the story is marked."""
    official = "" if tokenizer(one.tokenizer).exact else " u"
    here = " here" if (one.language, one.tokenizer) == story else ""
    drawn = one.low is not None and one.low != one.high
    interval = f"95 % interval {significant(one.low)} to {significant(one.high)}" if drawn else ""
    return Cell(text=one.text if one.value is not None else "–", style=step(one.value, one.shade) + official + here,
                value="" if one.value is None else f"{one.value:.6g}", title=interval,
                href=f"{base}language={one.language}&tokenizer={one.tokenizer}")


def step(value: float | None, shade: float) -> str:
    """The step of the scale that a shade (0 to 1) falls on: 'p1' to 'p7'."""
    return "none" if value is None else f"p{1 + min(int(shade * STEPS), STEPS - 1)}"


def legend(grid: Grid) -> tuple[tuple[str, str], ...]:
    """For every step that is used: its style, and from which value to which its cells are."""
    found: dict[str, list[AtlasCell]] = {}
    for line in grid.rows:
        for one in line.cells:
            if one.value is not None:
                found.setdefault(step(one.value, one.shade), []).append(one)
    ends = {style: [pick(cells, key=lambda one: one.value).text for pick in (min, max)] for style, cells in found.items()}
    return tuple((style, " to ".join(dict.fromkeys(ends[style]))) for style in sorted(ends))


def measures(query: Any) -> tuple[Choice, ...]:
    """The measures as links."""
    return tuple(Choice(text=kind.label, href=also(query, measure=name), chosen=query.measure == name)
                 for name, kind in KINDS.items())


def sorts(query: Any) -> tuple[Choice, ...]:
    """The orders as links; the columns' heads sort too."""
    names = {"measure": "dearest first", "name": "name", "script": "script", "family": "family"}
    return tuple(Choice(text=text, href=also(query, sort=name, reverse=False), chosen=query.sort == name)
                 for name, text in names.items())


def summaries(groups: Sequence[Group]) -> tuple[Summary, ...]:
    """Scripts or families."""
    return tuple(Summary(name=one.name, languages=str(one.languages), cells=tuple(
        (text if value is not None else "–", step(value, shade), "" if value is None else f"{value:.6g}")
        for value, text, shade in zip(one.medians, one.texts, one.shades, strict=True))) for one in groups)


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, from A."""
    return tuple(sorted(set(names)))
