"""`sched-sim export`: a run as files for other tools."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand, question
from pycore.cli.output import write_json
from pycore.cli.sched_sim import asking, report
from pycore.cli.sched_sim.document import setting
from pycore.errors import SourceError
from pycore.simulation import sheets
from pycore.systems.sched_sim import Query, Run

EPILOG = """\b
Examples:
  sched-sim export perfetto --workload chat --out trace.json        (open it in ui.perfetto.dev)
  sched-sim export requests --scheduler fcfs --workload stall > requests.csv
  sched-sim export steps --trace azure.csv.gz --limit 1000 --out steps.csv

\b
Times in the CSV files are nanoseconds from the run's beginning, ttft_ns, tpot_ns, e2e_ns and queueing_ns how long each
took; an empty cell is a thing that never happened. The page's files have the same columns.
Exit status: 0 written; 2 the question cannot be answered.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("what", type=click.Choice(("perfetto", "requests", "steps")))
@click.option("--out", metavar="FILE", help="Write there. [default: standard output]")
@click.option("--json", "as_json", is_flag=True, help="With --out: print what was written as one JSON object.")
@question(Query, leave_out=("against", "sweep", "draws", "request"))
def command(what: str, **options: Any) -> None:
    """A run as a Perfetto trace, or as CSV by request or by step."""
    as_json, out = flag(options, "as_json"), options.pop("out")
    asked = asking.read(options)
    found = asking.answer(asking.alone(asked))
    text = WRITERS[what](found.runs[0])
    if out in (None, "-"):
        sys.stdout.write(text)
    else:
        write(out, text)
        if as_json:
            write_json({"written": out, "bytes": len(text.encode())}
                       | setting(asked, found, f"export {what}", {"out": out}))
    report.hold(found.runs)


def write(out: str, text: str) -> None:
    """A text into a file. Raises SourceError."""
    try:
        Path(out).write_text(text, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:
        raise SourceError(out, f"cannot be written: {getattr(error, 'strerror', None) or error}", "out") from None


def perfetto(run: Run) -> str:
    """The run as a Chrome trace."""
    from pycore.simulation.perfetto import trace_text

    return trace_text(run.result)


def requests(run: Run) -> str:
    """A row a request, in order of arrival."""
    return sheets.requests_text([(run.label, run.result)])


def steps(run: Run) -> str:
    """A row a step, server after server."""
    return sheets.steps_text([(run.label, run.result)])


WRITERS: dict[str, Callable[[Run], str]] = {"perfetto": perfetto, "requests": requests, "steps": steps}
