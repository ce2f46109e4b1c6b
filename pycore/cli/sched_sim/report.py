"""The answer as text: what was simulated, one column a policy, what the run says of itself."""

from collections.abc import Callable, Sequence

from pycore.cli.output import heading, line, ranged, table
from pycore.cli.sched_sim import outlook, waits
from pycore.cli.sched_sim.ahead import PERCENTS, ahead
from pycore.ledger import Term
from pycore.simulation.compare import Lead
from pycore.simulation.figures import Distribution
from pycore.stats.estimates import TooFew
from pycore.systems.sched_sim import Answer, Run
from pycore.units import seconds, significant

LATENCIES = ("ttft", "tpot", "itl", "e2e", "queueing")
FIGURES: tuple[tuple[str, Callable[[Run], Term], int], ...] = (  # name, figure, better: -1 lower, 1 higher, 0 neither
    ("Requests completed", lambda run: run.metrics.completed, 1),
    ("Requests dropped", lambda run: run.metrics.dropped, -1),
    ("Makespan", lambda run: run.metrics.makespan, -1),
    ("Output tokens/s", lambda run: run.metrics.output_tokens_per_s, 1),
    ("Goodput, requests/s", lambda run: run.metrics.goodput.per_s, 1),
    ("Goodput, share of all sent", lambda run: run.metrics.goodput.share, 1),
    ("Prefix hit ratio", lambda run: run.metrics.hit_ratio, 0),
    ("Preemptions", lambda run: run.metrics.preemptions, 0),
    ("Tokens computed twice", lambda run: run.metrics.recomputed_tokens, 0),
    ("KV pool in use, mean", lambda run: run.metrics.pool.mean, 0),
    ("KV pool in use, peak", lambda run: run.metrics.pool.peak, 0),
    ("Steps", lambda run: run.metrics.batches.steps, 0),
)


def answer(found: Answer) -> None:
    """The whole report."""
    scene(found)
    if len(found.runs) == 1:
        latencies(found.runs[0])
    else:
        side_by_side(found.runs)
    counts(found.runs)
    waits.show(found)
    outlook.show(found)
    remarks(found)


def scene(found: Answer) -> None:
    """What was simulated."""
    deployment = found.scene.deployment
    line(", ".join(run.label for run in found.runs) + f": {found.workload_text}", style="bold")
    line(f"{deployment.model.name} in {deployment.weights.name} on {deployment.parallel.devices} × "
         f"{deployment.accelerator.name}, {found.scene.blocks.text} of KV; step times: {found.scene.cost_name}")


def latencies(run: Run) -> None:
    """One policy: a row a latency, the interval of the mean in the last column."""
    heading("Latencies (simulated)")
    rows = []
    for name in LATENCIES:
        found = run.metrics.latencies[name]
        rows.append((found.title, shown(found.mean), *(shown(found.percentiles[percent]) for percent in (50, 90, 99)),
                     interval(found), f"{found.n:,}"))
    table(("", "mean", "p50", "p90", "p99", "95 % interval of the mean", "n"), rows, right=(1, 2, 3, 4, 6))


def shown(figure: Term | TooFew) -> str:
    """A time, or that there are too few samples of it."""
    return figure.text if isinstance(figure, TooFew) else seconds(figure.value)


def interval(found: Distribution) -> str:
    """The mean's interval, or why there is none."""
    return ("" if isinstance(found.mean, TooFew) else ranged(found.mean)) or (
        f"none: {found.refused}" if found.refused else "")


def side_by_side(runs: Sequence[Run]) -> None:
    """Mean and percentiles of every policy; the best of a row bears a star, two where that is more than chance."""
    heading("Latencies (simulated; * the best of its row, ** beyond chance at 95 %, compared request by request)")
    rows: list[Sequence[object] | None] = []
    for name in LATENCIES:
        found = [run.metrics.latencies[name] for run in runs]
        titles = (f"{found[0].title}, mean", *(f"p{percent}" for percent in PERCENTS))
        rows += [None] * bool(rows)
        rows += [(title, *marked(figures, lead)) for title, (figures, lead) in zip(titles, ahead(runs, name), strict=True)]
    table(("", *(run.policy for run in runs)), rows, right=range(1, len(runs) + 1))


def marked(figures: Sequence[Term | TooFew], lead: Lead | None) -> list[str]:
    """Times, the leading one with its stars; without a comparison the least of them with one, where they differ."""
    values = [figure.value if isinstance(figure, Term) else None for figure in figures]
    known = [value for value in values if value is not None]
    stars = [star(value, known, -1) for value in values] if lead is None else [
        "" if place != lead.place else " **" if lead.certain else " *" for place in range(len(values))]
    return [shown(figure) + mark for figure, mark in zip(figures, stars, strict=True)]


def star(value: float | None, values: Sequence[float], better: int) -> str:
    """' *' at the best of values that are not all the same."""
    if value is None or not better or len(set(values)) < 2:
        return ""
    return " *" if value == (max if better > 0 else min)(values) else ""


def counts(runs: Sequence[Run]) -> None:
    """Counts, rates and the pool."""
    heading("Counts and rates")
    rows = []
    for name, figure, better in FIGURES:
        terms = [figure(run) for run in runs]
        values = [term.value for term in terms]
        rows.append((name, *(number(term) + star(term.value, values, better) for term in terms)))
    table(("", *(run.policy for run in runs)), rows, right=range(1, len(runs) + 1))


def number(term: Term) -> str:
    """Whole numbers with separators, others to four digits."""
    if term.unit == "s":
        return seconds(term.value)
    return f"{term.value:,}" if isinstance(term.value, int) else significant(term.value, 4)


def remarks(found: Answer) -> None:
    """Why requests were dropped, the notes, the checks."""
    line()
    for run in found.runs:
        for reason, number_lost in run.metrics.lost_to.items():
            line(f"  {run.policy}: {number_lost:,} dropped: {reason}")
    for note in found.notes:
        line(f"  {note}")
    line(f"  Goodput counts requests with {found.runs[0].metrics.goodput.slo.text}, out of all that were sent.")
    for run in found.runs:
        failed = [check for check in run.checks if not check.holds]
        names = ", ".join(check.name.lower() for check in run.checks)
        line(f"  {run.policy}: checked itself: {names}: " + ("all hold." if not failed else "; ".join(
            f"{check.name} DOES NOT HOLD ({check.says}; {check.fault})" for check in failed)))
    line("  Times are simulated, not measured.")


def hold(runs: Sequence[Run]) -> None:
    """A run that breaks its own laws is a fault of this program. Raises RuntimeError after the answer was printed."""
    broken = [f"{run.policy}: {check.name}: {check.says}" for run in runs for check in run.checks if not check.holds]
    if broken:
        raise RuntimeError("a run broke its own laws, its figures cannot be trusted: " + "; ".join(broken))
