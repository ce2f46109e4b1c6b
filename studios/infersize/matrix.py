"""Every accelerator, count and format at once: the heat map, the best way on each card, and the frontier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pycore.units import MIB, dollars, seconds, significant
from studios.explain import help_field
from studios.infersize.frontier import Frontier, bare, frontier
from studios.infersize.links import Links
from studios.marks import step

THRESHOLDS = (5, 10, 20, 40, 80)
"""Tokens per second and user where the heat map's shade changes; people read some 5 to 10 tokens a second."""
LEGEND = ("under 5", "5 to 10", "10 to 20", "20 to 40", "40 to 80", "80 and more")


class Cell(NamedTuple):
    """One configuration in the heat map (a tuple, since there are thousands).

    `text`: tokens/s of one user, or '≤8' where it holds only so many sequences; `style`: '1' to '6' (speed), 'late'
    (misses a target), 'few' or 'no'; `href`: the same as a question, '' where there is nothing to open.
    """

    text: str
    style: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """One accelerator in the heat map."""

    name: str = help_field("the accelerator")
    memory: str = help_field("usable GiB of one device")
    asked: bool = help_field("whether the question is about it")
    cells: tuple[Cell, ...] = help_field("by format, then by count")


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
class Matrix:
    """The whole table of configurations."""

    formats: tuple[tuple[str, str], ...] = help_field("column groups: (name to type, full name) of the weight formats")
    counts: tuple[int, ...] = help_field("columns of each group: how many devices")
    rows: tuple[HeatRow, ...] = help_field("accelerators that hold at least one sequence somewhere")
    never: str = help_field("accelerators too small in every column, as a list in words, or ''")
    legend: tuple[str, ...] = help_field("what steps 1 to 6 mean, tokens/s per user")
    targets: str = help_field("the latency targets that were applied, in words, or ''")
    choices: tuple[Choice, ...] = help_field("the cheapest way on each accelerator, cheapest first")
    size: str = help_field("how many configurations were computed")
    load: str = help_field("the load that every one of them was asked to hold")
    frontier: Frontier | None = help_field("the trade between one user's speed and a card's work, or None")


def matrix(answer: Any, links: Links) -> Matrix | None:
    """The matrix section, or None where the answer has no matrix (yet)."""
    if not answer.matrix:
        return None
    query = answer.query
    by_device: dict[str, list[Any]] = {}
    for row in answer.matrix:
        by_device.setdefault(row.accelerator_id, []).append(row)
    formats = tuple(dict.fromkeys((row.changes["quant"], row.format_name) for row in answer.matrix))
    counts = tuple(dict.fromkeys(row.count for row in answer.matrix))
    own = answer.deployment.accelerator.id
    heat, never = [], []
    for device, rows in by_device.items():
        if any(row.max_sequences for row in rows):
            heat.append(heat_row(rows, own == device, query, links, formats, counts))
        else:
            never.append(rows[0].accelerator_name)
    deployment, best = answer.deployment, cheapest(by_device, query)
    return Matrix(
        formats=formats, counts=counts, rows=tuple(heat), never=", ".join(never), legend=LEGEND,
        targets=targets_text(query), choices=tuple(choice(row, row.accelerator_id == own, links) for row in best),
        size=f"{len(answer.matrix):,}",
        load=f"{deployment.sequences:,} sequences of {deployment.context:,} tokens",
        frontier=frontier(answer, best, links))


def meets(row: Any, query: Any) -> bool:
    """Whether a configuration has a speed that stays under the question's TPOT target (0 = none)."""
    return row.tpot_s is not None and (query.target_tpot_ms == 0 or row.tpot_s * 1000 <= query.target_tpot_ms)


def targets_text(query: Any) -> str:
    return f"at most {significant(query.target_tpot_ms)} ms per output token" if query.target_tpot_ms else ""


def heat_row(rows: Sequence[Any], asked: bool, query: Any, links: Links, formats: Sequence[tuple[str, str]],
             counts: Sequence[int]) -> HeatRow:
    """One accelerator's cells, in the order of the columns."""
    place = {((row.changes["quant"], row.format_name), row.count): cell(row, query, links) for row in rows}
    empty = Cell("", "no", "")
    first = rows[0]
    return HeatRow(name=bare(first.accelerator_name), memory=gib(first), asked=asked,
                   cells=tuple(place.get((name, count), empty) for name in formats for count in counts))


def gib(row: Any) -> str:
    return f"{row.usable_bytes / MIB / 1024:.0f}"


def cell(row: Any, query: Any, links: Links) -> Cell:
    """One configuration: its speed where it fits, how many sequences it holds where it does not."""
    if row.fits and row.tpot_s is None:
        return Cell("fits", "few", links.to(row.changes, many=True))
    if row.fits:
        speed = row.tokens_per_s_user
        text = f"{speed:.0f}" if speed >= 9.95 else f"{speed:.1f}"
        style = str(step(speed, THRESHOLDS)) if meets(row, query) else "late"
        return Cell(text, style, links.to(row.changes, many=True))
    if row.max_sequences:
        return Cell(f"≤{row.max_sequences}", "few", links.to(row.changes, many=True))
    return Cell("", "no", "")


def cheapest(by_device: dict[str, list[Any]], query: Any) -> list[Any]:
    """The cheapest row of each accelerator that fits and meets the targets, cheapest first."""
    best = [min(good, key=cheapness) for rows in by_device.values()
            if (good := [row for row in rows if row.fits and meets(row, query)])]
    return sorted(best, key=cheapness)


def cheapness(row: Any) -> tuple:
    """Sort key: priced before unpriced, then by price, then fewer devices, then faster."""
    return (row.usd_per_million is None, row.usd_per_million or 0.0, row.count, row.tpot_s, row.accelerator_id)


def choice(row: Any, asked: bool, links: Links) -> Choice:
    """A matrix row as a line of the table of choices."""
    usd = row.usd_per_million
    return Choice(
        name=bare(row.accelerator_name), way=f"{row.count} × {row.changes['quant']}", href=links.to(row.changes),
        asked=asked,
        sequences=f"{row.max_sequences:,}", tpot=seconds(row.tpot_s), user=significant(row.tokens_per_s_user),
        total=significant(row.tokens_per_s_total), usd="no price" if usd is None else dollars(usd),
        values=tuple(f"{value:.6g}" for value in (row.max_sequences, row.tpot_s, row.tokens_per_s_user,
                                                  row.tokens_per_s_total, 1e9 if usd is None else usd)))
