"""sched-sim on a page: its answer as a `Page`, whose fields are the context of `panel.html.j2`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pycore import catalog
from pycore.knobs import to_url
from pycore.ledger import Term
from pycore.simulation.costs.overhead import EVIDENCE
from pycore.simulation.silences import Silence, largest_by_time, longest_term
from pycore.systems import sched_sim
from pycore.units import seconds, significant
from studios.explain import Group, Ledger, Number, help_field, plain
from studios.sched_sim import charts as drawings
from studios.sched_sim import files
from studios.sched_sim.gantt import Gantt, gantt
from studios.sched_sim.lines import POINTS, Lines, lines
from studios.sched_sim.outlook import Draws, Sweep, draws_view, sweep_view
from studios.sched_sim.replays import Replay, replay_view
from studios.sched_sim.scene import idle
from studios.sched_sim.table import Table, table
from studios.sched_sim.waits import Loss, Wait, losses, waits

TITLE = "sched-sim"
SENTENCE = "Which scheduler, at which load, and why did this request wait"
Query = sched_sim.Query
FRONT = ("scheduler", "against", "workload", "model", "hardware", "chunk_budget")
COMMAND = "sched-sim compare"
MODULE = "pycore.systems.sched_sim"
PACKAGES = ()
DATA = ("serving-profiles", "llm-serving-traces", "catalog")
COMMIT = re.compile(r" @[0-9a-f]{12,}")  # which state of a source: told where the simulator is judged
SAME = 0.01  # two gaps that differ by less than this share are called the same

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
    trade: Sentence = help_field("what the better one pays for it, or empty")
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
    replay: Replay = help_field("the validated replay")
    host: str = help_field("where step times are from, what a step is charged for the host, and why")
    computing: bool = help_field("whether a sweep or draws are still being computed")
    checks: tuple[Laws, ...] = help_field("what every run verified about itself")
    ledger: tuple[Group, ...] = help_field("every number on the page, explained")


def steps(query: sched_sim.Query) -> Iterator[Any]:
    """Progress while the runs are made and put into words, then the Page. Raises StudioError."""
    for item in sched_sim.steps(query):
        if isinstance(item, sched_sim.Answer):
            yield from pages(item)
        else:
            yield item


def pages(answer: Any) -> Iterator[Any]:
    """Progress, then an Answer as the page shows it: with twenty thousand requests each part takes its second, and who
    asks for something else meanwhile must not wait for all of them."""
    ledger, silences = Ledger(), []
    ledger.section("Token gaps")
    for run in answer.runs:
        yield at_work("looking for the longest token gap")
        silences.append(largest_by_time(run.result, POINTS))
    gaps = list(map(silence, silences))
    verdict = sentence(answer.runs, gaps, answer.query, ledger)
    yield at_work("drawing")
    worst = idle([run.result for run in answer.runs])
    yield at_work("drawing")
    picture = gantt(answer, ledger, gaps, worst)
    ledger.section("Times and rates")
    opening, paid = lead(answer, ledger), trade(answer.runs, ledger)
    figures = yield from table(answer, ledger, [None if one is None else one[0] for one in gaps])
    ledger.section("Waiting")
    lost = yield from losses(answer, ledger)
    waited = waits(answer, ledger, worst)
    ledger.section("Real runs beside their simulation")
    checks = replay_view(ledger)
    ledger.section("Sweeps and intervals")
    yield at_work("drawing")
    yield Page(
        answer=answer, verdict=verdict, trade=paid, lead=opening, notes=tuple(map(plain, answer.notes)),
        gantt=picture, table=figures, waits=waited, losses=lost, lines=lines(answer, silences),
        sweep=sweep_view(answer, ledger), sweep_links=sweep_links(answer.query), draws=draws_view(answer, ledger),
        replay=checks, host=host(answer),
        computing=bool(answer.query.sweep != "none" and not answer.sweep or answer.query.draws and not answer.draws),
        checks=tuple(map(checked, answer.runs)), ledger=ledger.groups())


def at_work(stage: str) -> sched_sim.Progress:
    """What is done after the runs."""
    return sched_sim.Progress(stage=stage, fraction=1.0)


def host(answer: Any) -> str:
    """Where the step times of the question's own runs are from, what a step is charged for the host, and why."""
    added = answer.query.overhead_us
    charged = f"{significant(added)} µs a step are" if added else "nothing is"
    return f"Above, step times are from {plain(answer.scene.cost_name)}; {charged} added for the host. Evidence: {EVIDENCE}."


def checked(run: Any) -> Laws:
    """A run's own laws, both sides in figures."""
    found = tuple(Check(name=one.name, law=one.law, holds=one.holds, left=f"{one.left:,}", right=f"{one.right:,}",
                        fault=plain(one.fault)) for one in run.checks)
    return Laws(policy=run.label, checks=found, held=sum(one.holds for one in found))


def silence(gaps: Sequence[tuple[int, int]]) -> tuple | None:
    """(Term, start, end) of a run's longest token gap, the earliest of equals, out of (end, length) ns of several."""
    if not gaps:
        return None
    end, length = max(gaps, key=lambda one: (one[1], -one[0]))
    return longest_term(Silence(end - length, end)), end - length, end


def sentence(runs: Any, silences: list, query: Any, ledger: Ledger) -> Sentence:
    """The policy under test against the first beside it: by the longest token gap, or by what does tell them apart."""
    mine = named(runs[0], query)
    if len(runs) == 1:
        gap = silences[0]
        return ((f"{mine}: the worst token gap is ", ledger.number(gap[0], seconds)) if gap else
                (f"{mine}: no gap between tokens",))
    both = [run.metrics.latencies for run in runs[:2]]
    figures = [("worst token gap", [None if one is None else one[0] for one in silences[:2]])]
    figures += [(f"mean {what}", [one[key].mean for one in both]) for what, key in (
        ("time to first token", "ttft"), ("time per output token", "tpot"), ("time to the last token", "e2e"))]
    for what, (own, other) in figures:
        if isinstance(own, Term) and isinstance(other, Term) and abs(own.value - other.value) > SAME * other.value:
            verb = "cuts" if own.value < other.value else "stretches"
            return f"{mine} {verb} the {what} from ", ledger.number(other, seconds), " to ", ledger.number(own, seconds)
    return (f"{mine} and {named(runs[1], query)} serve this trace alike",)


def named(run: Any, query: Any) -> str:
    """A policy with its chunk budget where it has one."""
    return f"{run.label} (C = {query.chunk_budget})" if run.policy == "chunked" else run.label


def trade(runs: Any, ledger: Ledger) -> Sentence:
    """The mean times of both policies, so that nobody reads the verdict alone."""
    if len(runs) < 2:
        return ()
    pairs = [(name, [run.metrics.latencies[key].mean for run in runs[:2]]) for name, key in (
        ("to the first token", "ttft"), ("from arrival to the last token", "e2e"))]
    pieces: list = []
    for name, (mine, other) in pairs:
        if isinstance(mine, Term) and isinstance(other, Term):
            pieces += ["; " if pieces else "On average ", ledger.number(mine, seconds), " instead of ",
                       ledger.number(other, seconds), f" {name}"]
    return (*pieces, f" ({runs[0].label} against {runs[1].label}).") if pieces else ()


def lead(answer: Any, ledger: Ledger) -> Sentence:
    """What was run, and on what."""
    query, scene = answer.query, answer.scene
    copies = f", {query.replicas} replicas" if query.replicas > 1 else ""
    return (f"{plain(answer.workload_words, 300)}. Served: {plain(scene.deployment.model.name, 80)} on "
            f"{query.count} × {scene.deployment.accelerator.name}{copies}, with a KV pool of ",
            ledger.number(scene.blocks, blocks), f" and step times from {plain(COMMIT.sub('', scene.cost_name), 120)}. "
            "The same requests under each policy, by the scheduler that serves; the clock is simulated.")


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
