"""Every accelerator, count and format at once: the heat map, the best way on each card, and the frontier."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from pycore.knobs import as_text, changed, knobs
from pycore.units import MIB, dollars, seconds, significant
from studios.explain import help_field
from studios.marks import step

THRESHOLDS = (5, 10, 20, 40, 80)
"""Tokens per second and user where the heat map's shade changes; people read some 5 to 10 tokens a second."""
LEGEND = ("under 5", "5 to 10", "10 to 20", "20 to 40", "40 to 80", "80 and more")


class Cell(NamedTuple):
    """One configuration in the heat map. `style`: "1" to "6" (speed), "late" (misses a target), "few", or "no"."""

    text: str
    style: str
    href: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """One accelerator in the heat map."""

    name: str = help_field("the accelerator")
    memory: str = help_field("usable GiB of one device")
    asked: bool = help_field("whether the question is about it")
    cells: tuple[Cell, ...] = help_field("by format, then by count: text, style, href (a question) and sort value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The cheapest way to hold the load on one accelerator."""

    name: str = help_field("the accelerator")
    way: str = help_field("count and format, '2 × AWQ'")
    href: str = help_field("the same as a question")
    asked: bool = help_field("whether the question is about this accelerator")
    sequences: str = help_field("most sequences it holds")
    tpot: str = help_field("time per output token")
    user: str = help_field("tokens/s of one user")
    total: str = help_field("tokens/s of all users")
    usd: str = help_field("USD per 1M tokens, or 'no price'")
    values: tuple[str, ...] = help_field("the last five columns as numbers, for sorting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration in the frontier chart (read by charts.py)."""

    name: str = help_field("'2 × H100 SXM, FP8'")
    user: float = help_field("tokens/s of one user")
    device: float = help_field("tokens/s per device")
    href: str = help_field("the same as a question")
    place: str = help_field("'best' on the frontier, 'asked' for the question's own accelerator and count, 'other'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The whole table of configurations."""

    formats: tuple[str, ...] = help_field("column groups: names of the weight formats")
    counts: tuple[int, ...] = help_field("columns of each group: how many devices")
    rows: tuple[HeatRow, ...] = help_field("accelerators that hold at least one sequence somewhere")
    never: str = help_field("accelerators too small in every column, as a list in words, or ''")
    legend: tuple[str, ...] = help_field("what steps 1 to 6 mean, tokens/s per user")
    targets: str = help_field("the latency targets that were applied, in words, or ''")
    choices: tuple[Choice, ...] = help_field("the cheapest way on each accelerator, cheapest first")
    size: str = help_field("how many configurations were computed")
    load: str = help_field("the load that every one of them was asked to hold")
    points: tuple[Point, ...] = help_field("for the frontier chart")


def matrix(answer: Any) -> Matrix | None:
    """The matrix section, or None where the answer has no matrix (yet)."""
    if not answer.matrix:
        return None
    links, query = Links(answer.query), answer.query
    by_device: dict[str, list[Any]] = {}
    for row in answer.matrix:
        by_device.setdefault(row.accelerator_id, []).append(row)
    formats = tuple(dict.fromkeys(row.format_name for row in answer.matrix))
    counts = tuple(dict.fromkeys(row.count for row in answer.matrix))
    own = answer.deployment.accelerator.id
    heat, never = [], []
    for device, rows in by_device.items():
        if any(row.max_sequences for row in rows):
            heat.append(heat_row(rows, own == device, query, links, formats, counts))
        else:
            never.append(rows[0].accelerator_name)
    deployment = answer.deployment
    return Matrix(
        formats=formats, counts=counts, rows=tuple(heat), never=", ".join(never), legend=LEGEND,
        targets=targets_text(query), choices=choices(by_device, own, query, links), size=f"{len(answer.matrix):,}",
        load=f"{deployment.sequences:,} sequences of {deployment.context:,} tokens",
        points=points(answer, links))


class Links:
    """Questions as links: the present question with a row's changes. Pieces are kept, since a matrix has thousands."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self._defaults = {knob.name: knob.default for knob in knobs(query)}
        self._bases: dict[tuple, str] = {}
        self._pairs: dict[tuple, str] = {}

    def to(self, changes: dict[str, Any]) -> str:
        names = tuple(changes)
        base = self._bases.get(names)
        if base is None:
            kept = {name: value for name, value in changed(self._query).items() if name not in changes}
            base = self._bases[names] = "?" + "".join(f"{name}={written(value)}&" for name, value in kept.items())
        return (base + "".join(map(self._pair, changes.items())))[:-1] or "?"

    def _pair(self, item: tuple[str, Any]) -> str:
        pair = self._pairs.get(item)
        if pair is None:
            name, value = item
            pair = self._pairs[item] = "" if value == self._defaults[name] else f"{name}={written(value)}&"
        return pair


def written(value: Any) -> str:
    """A field's value as it stands in a URL."""
    return quote(as_text(value), safe="/:,.-_~")


def meets(row: Any, query: Any) -> bool:
    """Whether a configuration has a speed that stays under the question's TPOT target (0 = none)."""
    return row.tpot_s is not None and (query.target_tpot_ms == 0 or row.tpot_s * 1000 <= query.target_tpot_ms)


def targets_text(query: Any) -> str:
    return f"at most {significant(query.target_tpot_ms)} ms per output token" if query.target_tpot_ms else ""


def heat_row(rows: Sequence[Any], asked: bool, query: Any, links: Links, formats: Sequence[str],
             counts: Sequence[int]) -> HeatRow:
    """One accelerator's cells, in the order of the columns."""
    place = {(row.format_name, row.count): cell(row, query, links) for row in rows}
    empty = Cell("", "no", "", "0")
    first = rows[0]
    return HeatRow(name=first.accelerator_name, memory=gib(first), asked=asked,
                   cells=tuple(place.get((name, count), empty) for name in formats for count in counts))


def gib(row: Any) -> str:
    return f"{row.usable_bytes / MIB / 1024:.0f}"


def cell(row: Any, query: Any, links: Links) -> Cell:
    """One configuration: its speed where it fits, how many sequences it holds where it does not."""
    if row.fits and row.tpot_s is None:
        return Cell("fits", "few", links.to(row.changes), "0.2")
    if row.fits:
        speed = row.tokens_per_s_user
        text = f"{speed:.0f}" if speed >= 9.95 else f"{speed:.1f}"
        style = str(step(speed, THRESHOLDS)) if meets(row, query) else "late"
        return Cell(text, style, links.to(row.changes), text)
    if row.max_sequences:
        return Cell(f"≤{row.max_sequences}", "few", links.to(row.changes), "0.1")
    return Cell("", "no", "", "0")


def choices(by_device: dict[str, list[Any]], own: str, query: Any, links: Links) -> tuple[Choice, ...]:
    """The cheapest configuration of each accelerator that fits and meets the targets; without a price, the smallest."""
    best = [(min(good, key=cheapness), device == own) for device, rows in by_device.items()
            if (good := [row for row in rows if row.fits and meets(row, query)])]
    return tuple(choice(row, asked, links) for row, asked in sorted(best, key=lambda one: cheapness(one[0])))


def cheapness(row: Any) -> tuple:
    """Sort key: priced before unpriced, then by price, then fewer devices, then faster."""
    return (row.usd_per_million is None, row.usd_per_million or 0.0, row.count, row.tpot_s, row.accelerator_id)


def choice(row: Any, asked: bool, links: Links) -> Choice:
    usd = row.usd_per_million
    return Choice(
        name=row.accelerator_name, way=f"{row.count} × {row.format_name}", href=links.to(row.changes), asked=asked,
        sequences=f"{row.max_sequences:,}", tpot=seconds(row.tpot_s), user=significant(row.tokens_per_s_user),
        total=significant(row.tokens_per_s_total), usd="no price" if usd is None else dollars(usd),
        values=tuple(f"{value:.6g}" for value in (row.max_sequences, row.tpot_s, row.tokens_per_s_user,
                                                  row.tokens_per_s_total, 1e9 if usd is None else usd)))


def points(answer: Any, links: Links) -> tuple[Point, ...]:
    """For each accelerator and count the format with the most tokens per device, and which of them nothing beats."""
    best: dict[tuple, Any] = {}
    for row in answer.matrix:
        key = (row.accelerator_id, row.count)
        if row.tpot_s is not None and (key not in best or row.tokens_per_s_per_gpu > best[key].tokens_per_s_per_gpu):
            best[key] = row
    leading, top = set(), 0.0
    for row in sorted(best.values(), key=lambda row: (-row.tokens_per_s_user, -row.tokens_per_s_per_gpu)):
        if row.tokens_per_s_per_gpu > top:
            leading.add((row.accelerator_id, row.count))
            top = row.tokens_per_s_per_gpu
    own = (answer.deployment.accelerator.id, answer.deployment.parallel.devices)
    return tuple(point(key, row, leading, own, links) for key, row in best.items())


def point(key: tuple, row: Any, leading: Iterable[tuple], own: tuple, links: Links) -> Point:
    place = "asked" if key == own else "best" if key in leading else "other"
    return Point(name=f"{row.count} × {row.accelerator_name}, {row.format_name}", user=row.tokens_per_s_user,
                 device=row.tokens_per_s_per_gpu, href=links.to(row.changes), place=place)
