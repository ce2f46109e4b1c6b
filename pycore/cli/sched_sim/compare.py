"""`sched-sim compare`: several policies on the same requests."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand, question
from pycore.cli.sched_sim import again, ahead, asking, outlook, report, waits
from pycore.cli.sched_sim.document import setting, whole
from pycore.errors import InputError
from pycore.systems.sched_sim import SCHEDULERS, Query

EPILOG = f"""\b
Examples:
  sched-sim compare
  sched-sim compare --schedulers chunked,fcfs,sjf --workload chat
  sched-sim compare --schedulers all --workload rag --json
  sched-sim compare --schedulers fcfs,chunked --workload stall --request 9      (why did it wait?)

\b
Policies: {", ".join(SCHEDULERS[:4])},
  {", ".join(SCHEDULERS[4:])}.
Without --schedulers: --scheduler beside those of --against.
Exit status: 0 answered; 2 the question cannot be answered.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with a run for every policy.")
@click.option("--url", is_flag=True, help="Print only the query string that opens this question on the page.")
@click.option("--schedulers", metavar="A,B,C", help="The policies to compare, separated by commas; all = every one.")
@question(Query)
def command(**options: Any) -> None:
    """Several policies on the same requests, side by side."""
    as_json, url, names = flag(options, "as_json"), flag(options, "url"), options.pop("schedulers")
    with asking.own_names(scheduler="schedulers" if names else "scheduler", against="schedulers" if names else "against"):
        asked = asking.read(options | chosen(names))
        if url:
            output.line(again.only_address(asked))
            return
        found = asking.answer(asked)
    if as_json:
        output.write_json(setting(asked, found, "compare") | {"runs": [whole(run) for run in found.runs],
                                                              "paired": ahead.document(found)}
                          | waits.document(found) | outlook.document(found))
    else:
        report.answer(found)
    report.hold(found.runs)


def chosen(names: str | None) -> dict[str, str]:
    """--schedulers as the question's own two fields. Raises InputError."""
    if names is None:
        return {}
    listed = list(SCHEDULERS) if names.strip().lower() == "all" else [name.strip() for name in names.split(",")]
    listed = [name for name in listed if name]
    if not listed:
        raise InputError("schedulers", names, "accepted: " + ", ".join(SCHEDULERS) + ", or all")
    return {"scheduler": listed[0], "against": ",".join(listed[1:])}
