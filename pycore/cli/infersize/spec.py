"""`infersize spec`: the speculative decoding sizer as tables and a curve in text."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.infersize import asking, report
from pycore.cli.infersize.document import document
from pycore.cli.options import QuestionCommand, question
from pycore.errors import InputError
from pycore.speculative import Speculation
from pycore.systems.infersize import Answer, Query

EPILOG = """\b
Examples:
  infersize spec --model llama-3.1-70b --draft-model llama-3.2-1b --gpu h100 --count 4 --acceptance 0.8
  infersize spec --model qwen2.5-7b --draft-model qwen2.5-0.5b --sequences 64 --draft-length 3 --json

\b
The table's speed-ups are for the asked draft length. Below 1 it is a slow-down.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@question(Query)
def command(**options: Any) -> None:
    """Speculative decoding: does a draft model pay, and until which batch."""
    as_json = flag(options, "as_json")
    query = asking.read_query(options)
    if not query.draft_model:
        raise InputError("draft_model", "", "accepted: a small model of the same family, such as qwen2.5-0.5b")
    answer = asking.answer(query)
    found = answer.speculation
    if as_json:
        whole = document(answer)
        output.write_json({key: whole[key] for key in ("model", "accelerator", "query", "url", "fits", "speculation")})
    else:
        show(answer, found)
    asking.exit_unless(answer.fits)


def show(answer: Answer, found: Speculation) -> None:
    """The report in text."""
    report.verdict(answer)
    report.speculation(answer)
    curve(found)
    crossover(found)


def curve(found: Speculation) -> None:
    """Speed-up against draft length, one bar a length."""
    output.heading("Speed-up against draft length")
    most = max(gain for _, gain in found.length_curve)
    output.table(("draft tokens", "speed-up", ""), [
        (length, f"{gain:.3f}", output.bar(gain / most)) for length, gain in found.length_curve], right=(0, 1))


def crossover(found: Speculation) -> None:
    """Acceptance down, batch across; the last column is the first batch that is slower."""
    output.heading("Speed-up by acceptance and batch (below 1: a slow-down)")
    cells = {(rate, batch): gain for rate, batch, gain in found.crossover}
    batches = sorted({batch for _, batch in cells})
    slower = dict(found.slowdown_batches)
    rows = [[f"{rate:g}", *(f"{cells[rate, batch]:.2f}" for batch in batches),
             "never" if slower[rate] is None else f"{slower[rate]:,}"] for rate in slower]
    output.table(("acceptance", *map(str, batches), "slower from"), rows, right=range(len(batches) + 2))
