"""`sched-sim run`: one policy on one workload."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand, question
from pycore.cli.sched_sim import again, asking, outlook, report, waits
from pycore.cli.sched_sim.asking import Asked
from pycore.cli.sched_sim.document import setting, whole
from pycore.systems.sched_sim import Query

EPILOG = """\b
Examples:
  sched-sim run --scheduler chunked --chunk-budget 512 --workload stall --hardware "rtx 4090" --model llama-3.1-8b
  sched-sim run --scheduler fcfs --workload "poisson rate=8 prompt=lognormal:1024 output=256 requests=500" --json
  sched-sim run --trace requests.csv.gz --hardware l40s --kv-blocks 2588

\b
--request 9 says why that request waited, under every policy that is run.
--against runs other policies beside it; --sweep and --draws add the same at other loads and step times (sched-sim sweep
does that on every core). Times are simulated, not measured.
Exit status: 0 answered; 2 the question cannot be answered.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (its keys are stable).")
@click.option("--url", is_flag=True, help="Print only the query string that opens this question on the page.")
@question(Query)
def command(**options: Any) -> None:
    """One policy on one workload: latencies, rates, goodput, and how the run checked itself."""
    as_json, url = flag(options, "as_json"), flag(options, "url")
    asked = asking.read(options)
    if url:
        output.line(again.only_address(asked))
        return
    show(asked, as_json=as_json, beside=options.get("against") is not None, command_name="run")


def show(asked: Asked, *, as_json: bool, beside: bool = False, command_name: str) -> None:
    """Run and print in the form that was asked for. `beside`: the policies of `against` too."""
    found = asking.answer(asked if beside else asking.alone(asked))
    if as_json:
        first, *others = found.runs
        own = {"against": asked.query.against} if beside and asked.query.against == Query().against else {}
        document = whole(first) | setting(asked, found, command_name, own) | waits.document(found) | outlook.document(found)
        output.write_json(document | ({"against": [whole(one) for one in others]} if others else {}))
    else:
        report.answer(found)
    report.hold(found.runs)
