"""`infersize plan`: the whole answer for one deployment, verdict first."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import DoesNotFit, flag
from pycore.cli.infersize import asking, report
from pycore.cli.infersize.document import document
from pycore.cli.options import QuestionCommand, question
from pycore.systems.infersize import Answer, Query

EPILOG = """\b
Examples:
  infersize plan --model qwen2.5-7b --gpu l40s --context 32k --sequences 8
  infersize plan --model deepseek-v3 --quant fp8 --kv-dtype fp8 --gpu h200 --count 8 --json
  infersize plan --config ./config.json --quant awq --gpu "rtx 4090"
  infersize plan --engine-log vllm.log --gpu l40s      (predicted against actual)
  infersize plan --explain "KV cache"                  (how one number came about)

\b
Exit status: 0 it fits; 1 it does not fit (the answer is printed all the same); 2 the question cannot be answered.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (its keys are stable).")
@click.option("--explain", metavar="TERM", help="Print only how this number came about: formula, values, sources.")
@click.option("--url", is_flag=True, help="Print only the query string that opens this question on the page.")
@question(Query)
def command(**options: Any) -> None:
    """Will it fit, how fast, what does it cost: one deployment, every number explained."""
    as_json, url = flag(options, "as_json"), flag(options, "url")
    term = options.pop("explain")
    query = asking.read_query(options)
    if url:
        output.line(asking.page_address(query))
        return
    show(asking.answer(query), as_json=as_json, term=term)


def show(answer: Answer, *, as_json: bool, term: str | None = None) -> None:
    """Print the answer in the form that was asked for. Raises DoesNotFit after printing."""
    if term is not None:
        from pycore.cli.explain import explain
        explain(answer.terms, term)
        return
    if as_json:
        output.write_json(document(answer))
    else:
        report.plan(answer)
    if not answer.fits:
        raise DoesNotFit
