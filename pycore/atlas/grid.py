"""The matrix as it is looked at: one measure, chosen columns, filtered and sorted rows, summaries by script and family."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pycore.atlas.kinds import KINDS, Kind, Setting
from pycore.atlas.languages import Language, languages
from pycore.atlas.table import TokenizerFacts, english, row, tokenizer, tokenizers
from pycore.errors import InputError, UnknownName
from pycore.matching import Names

SORTS = ("measure", "name", "family", "script", "code")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One language under one tokenizer. `value` is None where the measure has no meaning (words in Thai) or is not known.

    `low`, `high`: bootstrap 95 % interval over sentences, None where the measure has none. `shade`: 0 (best) to 1 (worst)
    between the extremes of the measure over all languages and tokenizers, on a logarithmic scale but for shares.
    """

    language: str
    tokenizer: str
    tokens: int
    value: float | None
    text: str
    low: float | None
    high: float | None
    shade: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One tokenizer of the matrix. `exact`: its own vocabulary was run, otherwise only an unofficial count is known.

    `median`, `worst`, `worst_language` (a name): of the measure over the languages shown; None and '' where there is none.
    """

    name: str
    label: str
    exact: bool
    note: str
    english_tokens: int
    median: float | None
    median_text: str
    worst: float | None
    worst_text: str
    worst_language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One language. `cells` in the order of the columns; `median` over them."""

    language: Language
    cells: tuple[Cell, ...]
    median: float | None
    median_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The languages of a script or a family: median of the measure by column."""

    name: str
    languages: int
    medians: tuple[float | None, ...]
    texts: tuple[str, ...]
    shades: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The heat map. `says`: one sentence on what a cell means and which way is worse; `unit` as the CSV names it."""

    measure: str
    label: str
    says: str
    columns: tuple[Column, ...]
    rows: tuple[Line, ...]
    scripts: tuple[Group, ...]
    families: tuple[Group, ...]
    of: int  # languages in all, before filters


@functools.lru_cache(maxsize=16)
def grid(*, measure: str, columns: str, sort: str, by: str, reverse: bool, scripts: str, families: str, find: str,
         setting: Setting) -> Grid:
    """The matrix so looked at; equal questions give the very same object. Raises InputError, UnknownName."""
    kind, shown = KINDS[measure], chosen(columns)
    ends = extremes(kind, setting)
    every = lines(kind, shown, setting, ends)
    kept = [one for one in every if wanted(one.language, scripts, families, find)]
    ordered = in_order(kept, shown, sort, by, kind, reverse)
    return Grid(
        measure=kind.name, label=kind.label, says=kind.says, rows=tuple(ordered), of=len(every),
        columns=tuple(summed(kind, facts, [(one.language, one.cells[index]) for one in ordered])
                      for index, facts in enumerate(shown)),
        scripts=groups(kind, ordered, len(shown), lambda language: language.script_name, ends),
        families=groups(kind, ordered, len(shown), lambda language: language.family, ends))


def chosen(text: str, field: str = "columns") -> tuple[TokenizerFacts, ...]:
    """Tokenizers by name, separated by commas; 'all' or nothing: every one. Raises UnknownName."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or [name.lower() for name in names] == ["all"]:
        return tokenizers()
    return tuple(dict.fromkeys(tokenizer(name, field) for name in names))


def extremes(kind: Kind, setting: Setting) -> tuple[float, float]:
    """Lowest and highest value of a measure over all languages and tokenizers (0, 0 where none is known)."""
    values = [value for one in languages() for facts in tokenizers()
              if (value := kind.value(row(one.code, facts.name), setting)) is not None]
    return (min(values), max(values)) if values else (0.0, 0.0)


def lines(kind: Kind, shown: Sequence[TokenizerFacts], setting: Setting, ends: tuple[float, float]) -> list[Line]:
    """Every language with its cells."""
    found = []
    for one in languages():
        cells = tuple(cell(kind, one, facts.name, setting, ends) for facts in shown)
        middle = median(one.value for one in cells)
        found.append(Line(language=one, cells=cells, median=middle, median_text=written(kind, middle)))
    return found


def cell(kind: Kind, language: Language, name: str, setting: Setting, ends: tuple[float, float]) -> Cell:
    """One cell."""
    counted = row(language.code, name)
    value = kind.value(counted, setting)
    between = kind.interval(counted) if kind.interval and value is not None else None
    return Cell(language=language.code, tokenizer=name, tokens=counted.tokens, value=value, text=written(kind, value),
                low=None if between is None else between.low, high=None if between is None else between.high,
                shade=shade(kind, value, ends))


def written(kind: Kind, value: float | None) -> str:
    """A value as the measure writes it; a dash where there is none."""
    return "–" if value is None else kind.text(value)


def shade(kind: Kind, value: float | None, ends: tuple[float, float]) -> float:
    """Where a value lies between the best (0) and the worst (1), to four decimals so that it is the same everywhere."""
    low, high = ends
    if value is None or low == high:
        return 0.0
    if kind.logarithmic and low > 0:
        low, high, value = math.log(low), math.log(high), math.log(value)
    at = (value - low) / (high - low)
    return round(at if kind.more_is_worse else 1 - at, 4)


def median(values: Iterable[float | None]) -> float | None:
    """The middle of those that are there."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def wanted(language: Language, scripts: str, families: str, find: str) -> bool:
    """Whether a language passes the filters. Raises UnknownName."""
    if scripts.strip() and language.script_name not in named(scripts, "scripts"):
        return False
    if families.strip() and language.family not in named(families, "families"):
        return False
    text = find.strip().casefold()
    return not text or any(text in part.casefold() for part in (
        language.name, language.code, language.script_name, language.family)) or text == language.iso639_1


@functools.lru_cache(maxsize=64)
def named(text: str, field: str) -> frozenset[str]:
    """Scripts or families by name (scripts by code too), separated by commas. Raises UnknownName."""
    spelt: dict[str, set[str]] = {}
    for one in languages():
        key, *others = (one.script_name, one.script) if field == "scripts" else (one.family,)
        spelt.setdefault(key, {key}).update(others)
    table, found = Names({key: tuple(sorted(forms)) for key, forms in spelt.items()}), set()
    for name in filter(None, (part.strip() for part in text.split(","))):
        keys = table.candidates(name)
        if len(keys) != 1:
            raise UnknownName(field, name, "accepted: " + ", ".join(spelt), keys or table.nearest(name))
        found.add(keys[0])
    return frozenset(found)


def in_order(rows: Sequence[Line], shown: Sequence[TokenizerFacts], sort: str, by: str, kind: Kind,
               reverse: bool) -> list[Line]:
    """Rows in order: by the measure the worst first, by texts from A. Rows without a value stand last. Raises InputError."""
    names = {"name": lambda one: one.language.name, "code": lambda one: one.language.code,
             "family": lambda one: (one.language.family, one.language.name),
             "script": lambda one: (one.language.script_name, one.language.name)}
    if sort != "measure":
        return sorted(rows, key=names[sort], reverse=reverse)
    value = of_column(by, shown)
    known = [one for one in rows if value(one) is not None]
    known.sort(key=lambda one: one.language.name)
    known.sort(key=value, reverse=kind.more_is_worse != reverse)
    return known + [one for one in rows if value(one) is None]


def of_column(by: str, shown: Sequence[TokenizerFacts]) -> Callable[[Line], float | None]:
    """What rows are sorted by: a column's value, or the median over the columns. Raises InputError, UnknownName."""
    if not by.strip():
        return lambda one: one.median
    name = tokenizer(by, "by").name
    places = [index for index, facts in enumerate(shown) if facts.name == name]
    if not places:
        raise InputError("by", by, "accepted: one of the columns shown: " + ", ".join(facts.name for facts in shown))
    return lambda one: one.cells[places[0]].value


def summed(kind: Kind, facts: TokenizerFacts, cells: Sequence[tuple[Language, Cell]]) -> Column:
    """A column with its summary."""
    known = [(one.value, language.name) for language, one in cells if one.value is not None]
    middle = median(value for value, _ in known)
    worst, where = (max if kind.more_is_worse else min)(known) if known else (None, "")
    return Column(name=facts.name, label=facts.label, exact=facts.exact, note=facts.note,
                  english_tokens=english(facts.name).tokens, median=middle, median_text=written(kind, middle), worst=worst,
                  worst_text=written(kind, worst), worst_language=where)


def groups(kind: Kind, rows: Sequence[Line], columns: int, key: Callable[[Language], str],
           ends: tuple[float, float]) -> tuple[Group, ...]:
    """Rows summed up by a key, those with most languages first, then from A."""
    members: dict[str, list[Line]] = {}
    for one in rows:
        members.setdefault(key(one.language), []).append(one)
    ranked = sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
    found = []
    for name, own in ranked:
        medians = tuple(median(one.cells[index].value for one in own) for index in range(columns))
        found.append(Group(name=name, languages=len(own), medians=medians,
                           texts=tuple(written(kind, value) for value in medians),
                           shades=tuple(shade(kind, value, ends) for value in medians)))
    return tuple(found)
