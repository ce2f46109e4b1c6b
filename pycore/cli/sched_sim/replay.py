"""`sched-sim replay FILE`: a trace as it happened, on the machine and the limits given."""

from dataclasses import replace
from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand, question
from pycore.cli.sched_sim import asking, run
from pycore.cli.sched_sim.profile import read_profile
from pycore.errors import InputError
from pycore.systems.sched_sim import Query

EPILOG = """\b
Examples:
  sched-sim replay AzureLLMInferenceTrace_conv.csv.gz --model llama-3.1-8b --hardware h100 --limit 2000
  sched-sim replay run.csv --model llama-3.1-8b --hardware "rtx 4090" --max-sequences 256 --max-batched-tokens 2048 \\
    --kv-blocks 2588 --profile profiles/RTX4090 --json

\b
Layouts: Azure 2023, Mooncake, BurstGPT, vLLM's benchmark and request logs, or columns arrival_s, prompt_tokens,
output_tokens; gzipped or not; - is standard input. --profile: a folder with dense.csv, per_sequence.csv, attention.csv
and, if there is one, skew.csv as LLMServingSim writes them (also *_dense.csv.gz; also below tp1/, tp2/).
Where --max-batched-tokens is given and --chunk-budget is not, it is the chunk budget too, as in vLLM.
Exit status: 0 answered; 2 the question cannot be answered (the message names line and column).
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (its keys are stable).")
@click.option("--url", is_flag=True, help="Print only the query string of the machine on the page; drop the trace there.")
@click.option("--profile", metavar="FOLDER", help="Measured kernel tables in LLMServingSim's layout, for the step times.")
@click.option("--speed", metavar="X", help="Replay so many times faster. [default: 1]")
@question(Query, leave_out=("trace", "workload", "sweep", "draws"))
def command(**options: Any) -> None:
    """A trace file as it happened, on the machine and the limits given."""
    as_json, url, file = flag(options, "as_json"), flag(options, "url"), options.pop("file")
    folder, speed = options.pop("profile"), factor(options.pop("speed"))
    if options.get("max_batched_tokens") is not None and options.get("chunk_budget") is None:
        options["chunk_budget"] = options["max_batched_tokens"]
    asked = asking.read(options)
    if url:
        output.line(asking.page_address(asked.query))
        return
    with asking.own_names(trace=""):
        asked = replace(asking.with_trace(asked, file), speed=speed, folder=folder or "",
                        tables=read_profile(folder, asked.query) if folder else None)
        run.show(asked, as_json=as_json, beside=options.get("against") is not None, command_name="replay")


def factor(text: str | None) -> float:
    """How much faster. Raises InputError."""
    if text is None:
        return 1.0
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 1e-3 <= found <= 1e6:
        raise InputError("speed", text, "accepted: a number from 0.001 to 1,000,000")
    return found
