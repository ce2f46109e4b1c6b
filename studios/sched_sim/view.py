"""sched-sim on a page: its answer as a `Page`, whose fields are the context of `panel.html.j2`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pycore import catalog
from pycore.knobs import to_url
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
from studios.sched_sim.waits import Loss, Wait, losses, waits

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

    name: str = help_field("the law's name")
    law: str = help_field("what is equal to what")
    holds: bool = help_field("whether it holds")
    left: str = help_field("one side of it")
    right: str = help_field("the other side, counted elsewhere")
    fault: str = help_field("where it does not hold, or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """What one run verified about itself."""

    policy: str = help_field("which run")
    checks: tuple[Check, ...] = help_field("the laws")
    held: int = help_field("how many hold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The context of `panel.html.j2`; `answer` is for downloads and the Python drawer."""

    answer: Any = help_field("the Answer itself")
    verdict: Sentence = help_field("the comparison in one line: texts and Numbers")
    better: bool = help_field("whether the policy under test is the better one, or stands alone")
    lead: Sentence = help_field("what was run, and on what")
    notes: tuple[str, ...] = help_field("what the runs remark")
    gantt: Gantt = help_field("the drawing of every policy on one time axis")
    table: Table = help_field("percentiles and rates side by side")
    waits: tuple[Wait, ...] = help_field("the requests that stood still longest, explained")
    losses: tuple[Loss, ...] = help_field("where all requests together lose time, by policy")
    lines: Lines = help_field("what the charts over time draw")
    sweep: Sweep | None = help_field("the sweep, or None")
    sweep_links: tuple[tuple[str, str], ...] = help_field("(text, link) that ask for a sweep or for draws")
    draws: Draws | None = help_field("the spread over draws, or None")
    replay: Replay | None = help_field("the validated replay, or None")
    checks: tuple[Laws, ...] = help_field("what every run verified about itself")
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
    opening = lead(answer, ledger)
    figures = table(answer, ledger, [None if one is None else one[0] for one in silences])
    ledger.section("Waiting")
    lost, waited = losses(answer, ledger), waits(answer, ledger)
    ledger.section("Sweeps and intervals")
    return Page(
        answer=answer, verdict=verdict, better=better, lead=opening, notes=tuple(map(plain, answer.notes)),
        gantt=picture, table=figures, waits=waited, losses=lost, lines=lines(answer), sweep=sweep_view(answer, ledger),
        sweep_links=sweep_links(answer.query), draws=draws_view(answer, ledger), replay=replay_view(ledger),
        checks=tuple(map(checked, answer.runs)), ledger=ledger.groups())


def checked(run: Any) -> Laws:
    """A run's own laws, both sides in figures."""
    found = tuple(Check(name=one.name, law=one.law, holds=one.holds, left=f"{one.left:,}", right=f"{one.right:,}",
                        fault=plain(one.fault)) for one in run.checks)
    return Laws(policy=run.label, checks=found, held=sum(one.holds for one in found))


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


def lead(answer: Any, ledger: Ledger) -> Sentence:
    """What was run, and on what."""
    query, scene = answer.query, answer.scene
    count = len(answer.runs[0].result.requests)
    machine = f"{query.count} × {scene.deployment.accelerator.name}" + (f", {query.replicas} replicas" if query.replicas > 1 else "")
    return (f"{count:,} requests ({plain(answer.workload_text, 200)}) to {plain(scene.deployment.model.name, 80)} on {machine}: a KV pool of ",
            ledger.number(scene.blocks, blocks), f" and step times from {plain(scene.cost_name, 120)}. "
            "The same trace under each policy, by the scheduler that serves; the clock is simulated.")


def blocks(count: float) -> str:
    return f"{int(count):,} blocks"


def sweep_links(query: Any) -> tuple[tuple[str, str], ...]:
    """Questions that take longer, as links."""
    asked = [(text, replace(query, **changes)) for text, changes in (
        ("Sweep the arrival rate", {"sweep": "rate"}), ("Sweep the chunk budget", {"sweep": "chunk"}),
        ("Draw the step times 20 times", {"draws": 20})) if any(
            getattr(query, name) != value for name, value in changes.items())]
    return tuple((text, f"?{to_url(one)}") for text, one in asked if len(query.trace) < 2000)


def headline(page: Page) -> str:
    """The verdict as plain text."""
    return "".join(piece.text if isinstance(piece, Number) else piece for piece in page.verdict)
