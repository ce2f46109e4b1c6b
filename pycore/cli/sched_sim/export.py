"""`sched-sim export`: a run as files for other tools."""

import csv
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand, question
from pycore.cli.output import write_json
from pycore.cli.sched_sim import asking, report
from pycore.cli.sched_sim.document import setting
from pycore.errors import SourceError
from pycore.simulation.records import RequestRecord, Result, StepRecord
from pycore.systems.sched_sim import Query

EPILOG = """\b
Examples:
  sched-sim export perfetto --workload chat --out trace.json        (open it in ui.perfetto.dev)
  sched-sim export requests --scheduler fcfs --workload stall > requests.csv
  sched-sim export steps --trace azure.csv.gz --limit 1000 --out steps.csv

\b
Times in the CSV files are integer nanoseconds from the run's beginning; an empty cell is a thing that never happened.
Exit status: 0 written; 2 the question cannot be answered.
"""
REQUEST_COLUMNS = tuple(name for name in RequestRecord.__dataclass_fields__ if name not in ("spans", "gaps"))


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
    text = WRITERS[what](found.runs[0].result)
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


def perfetto(result: Result) -> str:
    """The run as a Chrome trace."""
    from pycore.simulation.perfetto import trace_text

    return trace_text(result)


def requests(result: Result) -> str:
    """A row a request, in order of arrival."""
    rows = ([getattr(request, name) for name in REQUEST_COLUMNS] for request in result.requests)
    return csv_text(REQUEST_COLUMNS, rows)


def steps(result: Result) -> str:
    """A row a step, server after server."""
    return csv_text(("server", "step", *StepRecord._fields), (
        (server.name, number, *step) for server in result.servers for number, step in enumerate(server.steps)))


def csv_text(columns: tuple[str, ...], rows: Iterator[Any]) -> str:
    """Comma-separated values with a header. A text that a spreadsheet would run as a formula gets a quote in front."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(value) for value in row] for row in rows)
    return buffer.getvalue()


def cell(value: object) -> object:
    """None is empty; see `csv_text`."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return "" if value is None else value


WRITERS: dict[str, Callable[[Result], str]] = {"perfetto": perfetto, "requests": requests, "steps": steps}
