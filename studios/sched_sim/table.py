"""The percentile table: every policy's figures side by side, the better one marked, no figure where samples are too few."""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from pycore.ledger import Term
from pycore.simulation.compare import Lead, leads
from pycore.simulation.latencies import LATENCIES
from pycore.stats.estimates import TooFew
from pycore.systems.sched_sim import Progress
from pycore.units import seconds, significant
from studios.explain import Ledger, Number, help_field

TIMES = (
    ("ttft", "Time to first token", "first token − arrival"),
    ("tpot", "Time per output token", "(last token − first token) ÷ (tokens − 1)"),
    ("itl", "Between tokens", "token k + 1 − token k"),
    ("e2e", "End to end", "last token − arrival"),
    ("queueing", "Queueing", "first step − arrival"),
)
"""Name in the metrics, name on the page, what one sample is."""
PERCENTS = (50, 90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One figure of one policy."""

    number: Number | None = help_field("the figure, or None where there is none")
    span: str = help_field("its interval: '12 ms to 15 ms', 'at least 12 ms', or ''")
    best: bool = help_field("no other policy is better in this run")
    sure: bool = help_field("and that is more than chance, against every other policy")
    why_not: str = help_field("'n too small (24; needs 100)', or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """By how much the better policy leads, its requests compared one by one with the same requests of the nearest other."""

    number: Number | None = help_field("the difference of the two figures; None where one of them lost requests")
    more: str = help_field("'3.3 ms to 4.8 ms in the long run, over FCFS': its interval, whom of several; or ''")
    sure: bool = help_field("whether the lead is more than chance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of every policy."""

    name: str = help_field("'p90'")
    cells: tuple[Cell, ...] = help_field("in the order of the policies")
    ahead: Ahead | None = help_field("the lead, where requests can be compared and one of the policies leads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Figures of one kind."""

    title: str = help_field("'Time to first token'")
    how: str = help_field("how one sample is made, in a formula")
    lines: tuple[Line, ...] = help_field("mean and percentiles, or single figures")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The whole table."""

    policies: tuple[str, ...] = help_field("names of the policies")
    blocks: tuple[Block, ...] = help_field("times first, then rates and counts")
    targets: str = help_field("'TTFT ≤ 2 s and TPOT ≤ 0.1 s'")
    intervals: str = help_field("why intervals are missing where they are, or ''")


def table(answer: Any, ledger: Ledger, longest: Sequence[Term | None]) -> Generator[Progress, None, Table]:
    """Progress, then (as the generator's value) the Table. `longest`: the longest token gap of each run."""
    runs, blocks = answer.runs, []
    for name, title, how in TIMES:
        yield Progress(stage=f"comparing: {title.lower()}", fraction=1.0)
        if any(run.metrics.latencies[name].n for run in runs):
            blocks.append(time_block(name, title, how, runs, ledger, longest if name == "itl" else ()))
    refused = dict.fromkeys(run.metrics.latencies[name].refused for name, *_ in TIMES for run in runs)
    reasons = [reason for reason in refused if reason]
    return Table(policies=tuple(run.label for run in runs), blocks=(*blocks, rates(runs, ledger)),
                 targets=runs[0].metrics.goodput.slo.text,
                 intervals=f"Where a figure has no interval: {reasons[0]}." if reasons else "")


def time_block(name: str, title: str, how: str, runs: Sequence[Any], ledger: Ledger,
               longest: Sequence[Term | None]) -> Block:
    """Mean, percentiles and, where it is given, the longest of one time; the least is the best."""
    described = [run.metrics.latencies[name] for run in runs]
    rows = [("mean", [one.mean for one in described])]
    rows += [(f"p{percent}", [one.percentiles[percent] for one in described]) for percent in PERCENTS]
    found = ahead(name, runs, [figures for _, figures in rows]) if name in LATENCIES and len(runs) > 1 else None
    lines = [line(title, figures, ledger, seconds) if found is None else led(title, figures, ledger, lead, runs)
             for (title, figures), lead in zip(rows, found or [None] * len(rows), strict=True)]
    lines += [line("longest", longest, ledger, seconds)] if longest else []
    return Block(title=title, how=how, lines=tuple(lines))


def ahead(name: str, runs: Sequence[Any], rows: Sequence[Sequence[Term | TooFew]]) -> tuple[Lead | None, ...]:
    """Who leads in each row, compared request by request."""
    return leads([run.result for run in runs], name, (None, *PERCENTS), [
        [one.value if isinstance(one, Term) else None for one in figures] for figures in rows])


def led(name: str, figures: Sequence[Term | TooFew], ledger: Ledger, lead: Lead | None, runs: Sequence[Any]) -> Line:
    """One time of every policy, the one that leads marked."""
    cells = tuple(cell(one, ledger, seconds, best=lead is not None and place == lead.place,
                       sure=lead is not None and lead.certain) for place, one in enumerate(figures))
    if lead is None:
        return Line(name=name, cells=cells, ahead=None)
    rival, place = lead.nearest, lead.place
    other = next(number for number, run in enumerate(runs) if run.result.policy == rival.first)
    both = figures[other], figures[place]
    term = rival.term(*both) if all(isinstance(one, Term) for one in both) else None
    found = None if term is None else ledger.number(term, seconds)
    more = [f"{found.range_text} in the long run"] if found and found.range_text else []
    more += [f"over {runs[other].label}"] if len(runs) > 2 else []
    return Line(name=name, cells=cells, ahead=Ahead(number=found, sure=lead.certain, more=", ".join(more)))


def line(name: str, figures: Sequence[Term | TooFew | None], ledger: Ledger, write: Callable[[float], str],
         sign: int = 1) -> Line:
    """One figure of every policy; `sign` is -1 where more is better, 0 where neither is."""
    best = least([sign * one.value if isinstance(one, Term) else None for one in figures]) if sign else None
    return Line(name=name, ahead=None, cells=tuple(
        cell(one, ledger, write, best=best is not None and isinstance(one, Term) and sign * one.value <= best)
        for one in figures))


def cell(figure: Term | TooFew | None, ledger: Ledger, write: Callable[[float], str], *, best: bool,
         sure: bool = False) -> Cell:
    """One figure of one policy."""
    if not isinstance(figure, Term):
        return Cell(number=None, span="", best=False, sure=False, why_not="not known" if figure is None else figure.text)
    number = ledger.number(figure, write)
    endless = figure.high is not None and math.isinf(figure.high)
    return Cell(number=number, span=f"at least {write(figure.low)}" if endless else number.range_text, why_not="",
                best=best, sure=best and sure)


def least(values: Sequence[float | None]) -> float | None:
    """The least value where it tells policies apart, as it is written."""
    known = [value for value in values if value is not None]
    return min(known) if len({significant(value) for value in known}) > 1 else None


def rates(runs: Sequence[Any], ledger: Ledger) -> Block:
    """Throughput, goodput, the pool, and what went wrong."""
    found = [run.metrics for run in runs]
    rows = (
        ("Output tokens per second", [one.output_tokens_per_s for one in found], significant, -1),
        ("Requests per second within targets", [one.goodput.per_s for one in found], significant, -1),
        ("Requests within targets", [one.goodput.share for one in found], percent, -1),
        ("Makespan", [one.makespan for one in found], seconds, 1),
        ("Prompt tokens found cached", [one.hit_ratio for one in found], percent, -1),
        ("KV pool in use, at most", [one.pool.peak for one in found], percent, 0),
        ("Preemptions", [one.preemptions for one in found], significant, 1),
        ("Requests dropped", [one.dropped for one in found], significant, 1),
        ("Energy per output token, at most", [one.energy_per_token for one in found], joules, 1),
    )
    return Block(title="Rates and counts", how="", lines=tuple(
        line(name, figures, ledger, write, sign) for name, figures, write, sign in rows if any(figures)))


def joules(value: float) -> str:
    return f"{significant(value, 3)} J"


def percent(value: float) -> str:
    return f"{significant(100 * value, 3)} %"
