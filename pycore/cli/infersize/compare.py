"""`infersize compare`: the matrix of accelerators, counts and weight formats, sorted and filtered."""

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.infersize import asking
from pycore.cli.infersize.document import data
from pycore.cli.infersize.document import question as question_data
from pycore.cli.options import QuestionCommand, question
from pycore.knobs import to_url
from pycore.systems.infersize import MatrixRow, Query
from pycore.units import GIB, dollars, seconds, significant

EPILOG = """\b
Examples:
  infersize compare --model qwen2.5-7b --quant fp16
  infersize compare --model llama-3.3-70b --matrix-quants fp8,awq --only-fits --sort usd_per_million --top 10
  infersize compare --model deepseek-v3 --gpu h200 --csv > matrix.csv

\b
--quant narrows the matrix to one format, --gpu to one accelerator, --count to one count.
Speeds are predictions. Exit status: 0 something fits; 1 nothing fits; 2 the question cannot be answered.
"""
RISING = ("accelerator_name", "count", "format_name", "total_bytes", "tpot_s", "usd_per_million")
FALLING = ("tokens_per_s_user", "tokens_per_s_total", "tokens_per_s_per_gpu", "max_sequences", "usable_bytes")
SORTS = RISING + FALLING
ROWS_SHOWN = 40


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with a row for every combination.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option("--only-fits", is_flag=True, help="Leave out what does not fit.")
@click.option("--sort", type=click.Choice(SORTS), default="tokens_per_s_per_gpu", show_default=True,
              help="Best first by this column; what does not fit comes last.")
@click.option("--top", type=click.IntRange(0), metavar="N",
              help=f"Only the first N rows; 0 = all. [default: {ROWS_SHOWN} as text, all as JSON and CSV]")
@question(Query)
def command(**options: Any) -> None:
    """The matrix: one model on every accelerator, count and weight format."""
    as_json, as_csv, only_fits = flag(options, "as_json"), flag(options, "as_csv"), flag(options, "only_fits")
    sort, top = options.pop("sort"), options.pop("top")
    if options.get("quant") is not None and options.get("matrix_quants") is None:
        options["matrix_quants"] = options["quant"]
    query = asking.read_query(options)
    rows, fitting = select(asking.matrix(query), options, query, only_fits, sort)
    if top is None:
        top = 0 if as_json or as_csv else ROWS_SHOWN
    shown = rows[:top] if top else rows
    if as_json:
        output.write_json({"query": question_data(query), "url": "?" + to_url(query), "fitting": fitting,
                           "rows": data(shown)})
    elif as_csv:
        click.echo(as_text(shown), nl=False)
    else:
        show(shown, len(rows), fitting)
    asking.exit_unless(fitting)


def select(rows: Sequence[MatrixRow], options: dict[str, Any], query: Query, only_fits: bool,
           sort: str) -> tuple[tuple[MatrixRow, ...], int]:
    """The rows asked for, best first, and how many of all that match fit."""
    if options.get("gpu") is not None:
        from pycore import catalog
        chosen = catalog.accelerator(query.gpu).id
        rows = [row for row in rows if row.accelerator_id == chosen]
    if options.get("count") is not None:
        rows = [row for row in rows if row.count == query.count]
    fitting = sum(row.fits for row in rows)
    rows = [row for row in rows if row.fits or not only_fits]
    return tuple(sorted(rows, key=lambda row: order(row, sort))), fitting


def order(row: MatrixRow, column: str) -> tuple:
    """Sort key: what fits first, then best by the column (missing values last), then by name for a stable order."""
    value = getattr(row, column)
    best = value if value is None or column in RISING else -value
    return (not row.fits, value is None, best if value is not None else 0, row.accelerator_name, row.count,
            row.format_name)


def as_text(rows: Sequence[MatrixRow]) -> str:
    """Comma-separated values, one line a row, with a header."""
    columns = [field.name for field in dataclasses.fields(MatrixRow) if field.name not in ("changes", "pace")]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if (value := getattr(row, name)) is None else value for name in columns] for row in rows])
    return buffer.getvalue()


def show(rows: Sequence[MatrixRow], found: int, fitting: int) -> None:
    """The table in text."""
    output.table(("accelerator", "n", "weights", "fits", "GiB per GPU", "seqs", "TPOT", "tok/s user", "tok/s all",
                  "tok/s GPU", "$ per 1M", ""), [cells(row) for row in rows], right=(1, 4, 5, 6, 7, 8, 9, 10), indent=0)
    more = "" if len(rows) == found else f" (--top {found} shows all)"
    output.line("n: devices. seqs: most sequences at this context. GiB: needed of usable.")
    output.line(f"{len(rows):,} of {found:,} rows shown{more}; {fitting:,} combinations fit. Speeds are predictions.")


def cells(row: MatrixRow) -> tuple[str, ...]:
    """One row as text; a speed that is not known says why in the last column."""
    pace = "-" if row.tpot_s is None else seconds(row.tpot_s)
    rates = ("-" if value is None else significant(value) for value in (
        row.tokens_per_s_user, row.tokens_per_s_total, row.tokens_per_s_per_gpu))
    return (row.accelerator_name, str(row.count), row.changes["quant"], "yes" if row.fits else "no",
            f"{row.total_bytes / GIB:.1f} of {row.usable_bytes / GIB:.1f}", f"{row.max_sequences:,}", pace, *rates,
            "-" if row.usd_per_million is None else dollars(row.usd_per_million), row.reason if row.fits else "")
