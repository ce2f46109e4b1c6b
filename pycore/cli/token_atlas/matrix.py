"""`token-atlas matrix`: the heat map in text, as JSON or CSV."""

import csv
import io
from typing import Any

import click

from pycore.atlas.grid import Grid
from pycore.atlas.table import english
from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.token_atlas import asking
from pycore.systems.token_atlas import Query, matrix

FIELDS = ("columns", "measure", "sort", "by", "reverse", "scripts", "families", "find", "context", "model", "prompt",
          "price")
EPILOG = """\b
Examples:
  token-atlas matrix
  token-atlas matrix --measure absolute --by gemma3
  token-atlas matrix --families dravidian,indo-aryan --measure fertility
  token-atlas matrix --sort script --csv > matrix.csv
  token-atlas matrix --json

\b
--json: `rows`, one a language and tokenizer, with language (FLORES code), tokenizer, tokens (sum over dev and
devtest, each sentence encoded alone, no BOS) and premium; value, low and high are of the measure asked for.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--csv", "as_csv", is_flag=True, help="Print the same rows as comma-separated values.")
@asking.options(*FIELDS)
def command(**options: Any) -> None:
    """52 languages by tokenizers: premium, fertility, context, time or money."""
    as_json, as_csv = flag(options, "as_json"), flag(options, "as_csv")
    query = asking.read(options)
    found = matrix(query)
    if as_json:
        output.write_json({"measure": found.measure, "says": found.says} | asking.setting(query) | {"rows": rows(found)})
    elif as_csv:
        click.echo(as_text(found), nl=False)
    else:
        show(query, found)


def rows(found: Grid) -> list[dict[str, Any]]:
    """A row for each language and tokenizer."""
    return [{
        "language": cell.language, "tokenizer": cell.tokenizer, "tokens": cell.tokens,
        "premium": cell.tokens / english(cell.tokenizer).tokens, "value": cell.value, "low": cell.low, "high": cell.high,
        "name": line.language.name, "script": line.language.script_name, "family": line.language.family,
    } for line in found.rows for cell in line.cells]


def as_text(found: Grid) -> str:
    """The rows as CSV."""
    buffer, made = io.StringIO(), rows(found)
    columns = list(made[0]) if made else ["language", "tokenizer", "tokens", "premium"]
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(made)
    return buffer.getvalue()


def show(query: Query, found: Grid) -> None:
    """The table: a line a language, a column a tokenizer."""
    output.line(f"{found.label}. {found.says}", style="bold")
    output.line()
    if not found.rows:
        output.line("No language matches the filters.")
        return
    shown = f"{len(found.rows)} language{'' if len(found.rows) == 1 else 's'}"
    summary: list = [None, ("median", shown, *(one.median_text for one in found.columns), ""),
                     ("worst", "", *(one.worst_text for one in found.columns), ""),
                     ("", "", *(one.worst_language for one in found.columns), "")]
    output.table(("language", "script", *(one.name for one in found.columns), "median"), [
        (line.language.name, line.language.script_name, *(cell.text for cell in line.cells), line.median_text)
        for line in found.rows] + summary, right=range(2, 3 + len(found.columns)), indent=0)
    for one in found.columns:
        if not one.exact:
            output.line(f"{one.name}: {one.label}. Counts only: nobody outside knows where its tokens begin and end.")
    output.line(f"{len(found.rows)} of {found.of} languages. Why a figure is what it is: token-atlas language NAME "
                "--explain premium. With intervals: --json.")
