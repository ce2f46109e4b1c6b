"""`sched-sim sweep`: the same run over arrival rates or chunk budgets."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand, question
from pycore.cli.progress import bar
from pycore.cli.sched_sim import again, asking, workers
from pycore.cli.sched_sim.asking import Asked
from pycore.cli.sched_sim.document import question as question_data
from pycore.cli.sched_sim.outlook import TURNS, bracket
from pycore.cli.sched_sim.points import Found, Place, places
from pycore.errors import InputError
from pycore.simulation.knee import Bend, bend
from pycore.simulation.lengths import shown
from pycore.systems.sched_sim import LABELS, Query
from pycore.units import significant

EPILOG = """\b
Examples:
  sched-sim sweep --over rate --workload chat
  sched-sim sweep --over rate --at 2,4,8,16 --workload "poisson rate=8 prompt=1024 output=256 requests=500" --json
  sched-sim sweep --over chunk --workload rag
  sched-sim sweep --over rate --trace azure.csv.gz --limit 2000 --dask tcp://127.0.0.1:8786

\b
Rates are requests/s (a trace is replayed faster or slower); without --at the page's: a quarter of
the workload's own to four times as many.
Exit status: 0 answered; 2 the question cannot be answered.
"""
COLUMNS = (("ttft_ms", "mean"), ("ttft_ms", "p90"), ("ttft_ms", "p99"), ("tpot_ms", "mean"), ("tpot_ms", "p90"))


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--over", type=click.Choice(("rate", "chunk")), help="What is swept. [default: what --sweep says, else rate]")
@click.option("--at", metavar="A,B,C", help="The points: requests/s, or tokens with --over chunk.")
@click.option("--processes", type=click.IntRange(0, 1024), default=0, metavar="N",
              help="So many processes at once; 0 = one a core. [default: 0]")
@click.option("--dask", metavar="ADDRESS", help="Send the points to this Dask cluster instead (tcp://HOST:PORT).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the stable keys at every point.")
@click.option("--url", is_flag=True, help="Print only the query string that opens this sweep on the page.")
@question(Query, leave_out=("against", "draws", "request"))
def command(**options: Any) -> None:
    """The same run over arrival rates or chunk budgets, on all cores or on a Dask cluster."""
    as_json, url, over = flag(options, "as_json"), flag(options, "url"), options.pop("over")
    at, processes, dask = options.pop("at"), options.pop("processes"), options.pop("dask")
    asked = asking.read(options)
    over = over or (asked.query.sweep if asked.query.sweep != "none" else "rate")
    asked = replace(asked, query=replace(asked.query, sweep=over))
    if url:
        output.line(again.only_address(asked, unsaid(asked.query, at)))
        return
    with asking.own_names():
        asking.prepared(asked)
        points = places(replace(asked, query=replace(asked.query, sweep="none")), over, at)
    found = computed(points, processes, dask)
    curve = bend([one.point for one in found if one.point is not None]) if over == "rate" else None
    if as_json:
        output.write_json(document(asked, at, found, curve))
    else:
        show(asked.query, over, found, curve)
    hold(found)


def computed(points: Sequence[Place], processes: int, dask: str | None) -> tuple[Found, ...]:
    """Every point, in the order of what is swept. Raises StudioError; InputError where none could be run."""
    source = workers.on_dask(points, dask) if dask is not None else workers.here(points, processes)
    found: list[Found] = []
    with bar() as report:
        for one in source:
            found.append(one)
            report(f"{len(found):,} of {len(points):,} points", len(found) / len(points))
    if all(one.fault for one in found):
        raise InputError("at", f"{found[0].at:g}", f"no point could be run: {found[0].fault}")
    return tuple(sorted(found, key=lambda one: one.at))


def unsaid(query: Query, at: str | None) -> str:
    """What no address of the page says of a sweep, '' for nothing."""
    if at is not None:
        return "points of one's own"
    return "chunk budgets of disaggregated" if query.sweep == "chunk" and query.scheduler == "disaggregated" else ""


def document(asked: Asked, at: str | None, found: Sequence[Found], curve: Bend | None) -> dict[str, Any]:
    """The sweep as one object, with how to ask for it again."""
    query, over = asked.query, asked.query.sweep
    own = {"over": over} | ({} if at is None else {"at": ",".join(shown(one.at) for one in found)})
    key = "rate_per_s" if over == "rate" else "chunk_budget"
    made: dict[str, Any] = {
        "over": over, "scheduler": query.scheduler, "query": question_data(query),
        **again.address(asked, unsaid(query, at)),
        "command": again.command(replace(asked, query=replace(query, sweep="none")), "sweep", own),
        "points": [{key: one.at, **one.figures, **({"fault": one.fault} if one.fault else {})} for one in found]}
    if curve is not None:
        made |= {name: bracket(getattr(curve, name)) for name in TURNS}
        made["remarks"] = list(curve.remarks)
    return made


def show(query: Query, over: str, found: Sequence[Found], curve: Bend | None) -> None:
    """The sweep in text."""
    output.line(f"{LABELS[query.scheduler]}: " + ("arrival rates" if over == "rate" else "chunk budgets"), style="bold")
    good = [one.figures.get("goodput_requests_per_s", 0.0) for one in found]
    most = max(good) or 1.0
    output.table(("requests/s" if over == "rate" else "chunk", "done", "TTFT ms", "p90", "p99", "TPOT ms", "p90", "tok/s",
                  "goodput/s", ""), [row(one, good[index] / most) for index, one in enumerate(found)], right=range(9))
    if curve is None:
        return
    for term in (curve.knee, curve.saturation, curve.cliff, curve.best_goodput):
        if term is not None:
            output.line(f"  {term.name}: {output.with_range(term)}" + (f"; {term.note}" if term.note else ""))
    for remark in curve.remarks:
        output.line(f"  {remark}.")


def row(one: Found, share: float) -> tuple[str, ...]:
    """A point as cells; '-' where samples are too few."""
    if one.fault:
        return (f"{one.at:g}", *("" for _ in range(8)), one.fault)
    cells = [one.figures[key][name] for key, name in COLUMNS]
    return (f"{one.at:g}", f"{one.figures['completed']:,}", *("-" if cell is None else significant(cell) for cell in cells),
            significant(one.figures["throughput_tokens_per_s"]), significant(one.figures["goodput_requests_per_s"]),
            output.bar(share, 16))


def hold(found: Sequence[Found]) -> None:
    """Runs that break their own laws are a fault of this program. Raises RuntimeError after the answer was printed."""
    broken = [f"{one.at:g}" for one in found if not one.checked and not one.fault]
    if broken:
        raise RuntimeError("runs broke their own laws, their figures cannot be trusted: at " + ", ".join(broken))
