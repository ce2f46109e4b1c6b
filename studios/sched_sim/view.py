"""sched-sim on a page: its answer as a `Page`, whose fields are the context of `panel.html.j2`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pycore import catalog
from pycore.simulation.silences import longest, longest_term
from pycore.systems import sched_sim
from pycore.units import seconds
from studios.explain import Group, Ledger, Number, help_field, plain
from studios.sched_sim import charts as drawings
from studios.sched_sim import files
from studios.sched_sim.gantt import Gantt, gantt
from studios.sched_sim.lines import Lines, lines
from studios.sched_sim.outlook import Draws, Replay, Sweep, draws_view, replay_view, sweep_view
from studios.sched_sim.table import Table, table
from studios.sched_sim.waits import Wait, waits

TITLE = "sched-sim"
SENTENCE = "Which scheduler, at which load, and why did this request wait"
Query = sched_sim.Query
FRONT = ("scheduler", "against", "workload", "model", "hardware", "chunk_budget")
COMMAND = "sched-sim compare"
MODULE = "pycore.systems.sched_sim"
PACKAGES = ()

Sentence = tuple[str | Number, ...]
completions = catalog.names
charts, downloads = drawings.charts, files.downloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One law that a run verified about itself."""

    policy: str = help_field("which run")
    name: str = help_field("the law")
    holds: bool = help_field("whether it holds")
    detail: str = help_field("both sides of it in figures")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The context of `panel.html.j2`; `answer` is for downloads and the Python drawer."""

    answer: Any = help_field("the Answer itself")
    verdict: Sentence = help_field("the comparison in one line: texts and Numbers")
    better: bool = help_field("whether the policy under test is the better one, or stands alone")
    lead: str = help_field("what was run")
    notes: tuple[str, ...] = help_field("what the runs remark")
    gantt: Gantt = help_field("the drawing of every policy on one time axis")
    table: Table = help_field("percentiles and rates side by side")
    waits: tuple[Wait, ...] = help_field("the requests that stood still longest, explained")
    lines: Lines = help_field("what the charts over time draw")
    sweep: Sweep | None = help_field("the sweep, or None")
    sweep_links: tuple[tuple[str, str], ...] = help_field("(text, link) that ask for a sweep or for draws")
    draws: Draws | None = help_field("the spread over draws, or None")
    replay: Replay | None = help_field("the validated replay, or None")
    checks: tuple[Check, ...] = help_field("what every run verified about itself")
    ledger: tuple[Group, ...] = help_field("every number on the page, explained")


def steps(query: sched_sim.Query) -> Iterator[Any]:
    """Progress while the runs are made, then the Page. Raises StudioError."""
    for item in sched_sim.steps(query):
        yield page(item) if isinstance(item, sched_sim.Answer) else item


def page(answer: Any) -> Page:
    """An Answer as the page shows it."""
    ledger = Ledger()
    ledger.section("Token gaps")
    silences = [silence(run.result) for run in answer.runs]
    better, verdict = sentence(answer.runs, silences, ledger)
    picture = gantt(answer, ledger, silences)
    ledger.section("Times and rates")
    figures = table(answer, ledger)
    ledger.section("Sweeps and intervals")
    return Page(
        answer=answer, verdict=verdict, better=better, lead=lead(answer), notes=tuple(map(plain, answer.notes)),
        gantt=picture, table=figures, waits=waits(answer), lines=lines(answer), sweep=sweep_view(answer, ledger),
        sweep_links=sweep_links(answer.query), draws=draws_view(answer, ledger), replay=replay_view(ledger),
        checks=tuple(Check(policy=run.label, name=one.name, holds=one.holds, detail=plain(one.detail))
                     for run in answer.runs for one in run.checks), ledger=ledger.groups())


def silence(result: Any) -> tuple | None:
    """(Term, start, end) of a run's longest token gap."""
    found = longest(result)
    return None if found is None else (longest_term(found), found.start_ns, found.end_ns)


def sentence(runs: Any, silences: list, ledger: Ledger) -> tuple[bool, Sentence]:
    """Whether the policy under test is better, and the comparison by the longest token gap."""
    first = silences[0]
    if first is None:
        return True, (f"{runs[0].label}: no request got a second token",)
    mine = ledger.number(first[0], seconds)
    rest = [(found[0], run.label) for found, run in zip(silences[1:], runs[1:], strict=True) if found]
    if not rest:
        return True, (f"{runs[0].label}: the worst token gap is ", mine)
    other, label = rest[0]
    if abs(other.value - first[0].value) < 0.01 * other.value:
        return True, (f"{runs[0].label} and {label} have the same worst token gap, ", mine)
    cuts = first[0].value < other.value
    return cuts, (f"{runs[0].label} {'cuts' if cuts else 'stretches'} the worst token gap from ",
                  ledger.number(other, seconds), " to ", mine)


def lead(answer: Any) -> str:
    """What was run."""
    count = len(answer.runs[0].result.requests)
    others = ", ".join(run.label for run in answer.runs[1:])
    return (f"{plain(answer.workload_text)} {count:,} requests, simulated"
            f"{f' under {answer.runs[0].label} and under {others}' if others else ''} on the same trace, by the scheduler "
            f"that serves.")


def sweep_links(query: Any) -> tuple[tuple[str, str], ...]:
    """Questions that take longer, as links."""
    from pycore.knobs import to_url
    from dataclasses import replace

    asked = [(text, replace(query, **changes)) for text, changes in (
        ("Sweep the arrival rate", {"sweep": "rate"}), ("Sweep the chunk budget", {"sweep": "chunk"}),
        ("Draw the step times 20 times", {"draws": 20})) if any(
            getattr(query, name) != value for name, value in changes.items())]
    return tuple((text, f"?{to_url(one)}") for text, one in asked if len(query.trace) < 2000)


def headline(page: Page) -> str:
    """The verdict as plain text."""
    return "".join(piece.text if isinstance(piece, Number) else piece for piece in page.verdict)
