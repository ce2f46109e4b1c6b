"""Sweeps and draws of `run` and `compare`, as text and as JSON: what the same question answers at other loads, chunk
budgets and step times. `sched-sim sweep` does the same on every core."""

from typing import Any

from pycore.cli.output import heading, line, table, with_range
from pycore.ledger import Term
from pycore.simulation.knee import Bend
from pycore.stats.estimates import TooFew
from pycore.systems.sched_sim import Answer
from pycore.units import seconds, significant

TURNS = ("knee", "saturation", "cliff", "best_goodput")


def show(found: Answer) -> None:
    """What was swept and drawn, in text; nothing where neither was asked for."""
    if found.sweep:
        sweep(found)
    if found.draws:
        draws(found)


def sweep(found: Answer) -> None:
    """A row a point, then where each policy turns."""
    rate = found.query.sweep == "rate"
    heading("The same at other arrival rates" if rate else "The same with other chunk budgets")
    rows = []
    for one in found.sweep:
        first, pace = one.metrics.latencies["ttft"].percentiles[50], one.metrics.latencies["tpot"].mean
        rows.append((one.policy, f"{one.at:.4g}" if rate else f"{int(one.at):,}", cell(first), cell(pace),
                     significant(one.metrics.goodput.per_s.value), f"{100 * one.metrics.goodput.share.value:.3g} %"))
    table(("", "requests/s" if rate else "chunk", "p50 TTFT", "mean TPOT", "goodput/s", "within targets"), rows,
          right=range(1, 6))
    for policy, curve in found.bends:
        for term in (getattr(curve, name) for name in TURNS):
            if term is not None:
                line(f"  {policy}: {term.name}: {with_range(term)}")
        for remark in curve.remarks:
            line(f"  {policy}: {remark}.")


def draws(found: Answer) -> None:
    """Least, middle and most of the mean time to first token over the draws, a row a policy."""
    times = len(found.draws) // len(found.runs)
    heading(f"Step times drawn from their uncertainty, {times} times: mean time to first token")
    rows = []
    for run in found.runs:
        means = [one.metrics.latencies["ttft"].mean for one in found.draws if one.policy == run.policy]
        known = sorted(mean.value for mean in means if isinstance(mean, Term))
        rows.append((run.policy, *(seconds(known[place]) for place in (0, len(known) // 2, -1))) if known else
                    (run.policy, "none came", "", ""))
    table(("", "least", "middle", "most"), rows, right=(1, 2, 3))
    low, high = (significant(pick(one.factor for one in found.draws), 3) for pick in (min, max))
    line(f"  Every step took {low} to {high} times as long as the model says.")


def cell(figure: Term | TooFew) -> str:
    """A time, or '-' where samples are too few."""
    return seconds(figure.value) if isinstance(figure, Term) else "-"


def document(found: Answer) -> dict[str, Any]:
    """Keys 'sweep', 'bends' and 'draws', each only where it was asked for."""
    from pycore.cli.sched_sim.document import figures

    key = "rate_per_s" if found.query.sweep == "rate" else "chunk_budget"
    made: dict[str, Any] = {}
    if found.sweep:
        made["sweep"] = [{"scheduler": one.policy, key: one.at, **figures(one)} for one in found.sweep]
    if found.bends:
        made["bends"] = {policy: bends(curve) for policy, curve in found.bends}
    if found.draws:
        made["draws"] = [{"scheduler": one.policy, "factor": one.factor, **figures(one)} for one in found.draws]
    return made


def bends(curve: Bend) -> dict[str, Any]:
    """Where one policy turns, each a rate between the neighbouring points or null."""
    return {name: bracket(getattr(curve, name)) for name in TURNS} | {"remarks": list(curve.remarks)}


def bracket(term: Term | None) -> dict[str, float | None] | None:
    """A rate between the neighbouring points."""
    return None if term is None else {"value": term.value, "low": term.low, "high": term.high}
