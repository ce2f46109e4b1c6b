"""The `sched-sim` command: one short file a subcommand, loaded when it is asked for."""

import sys
from collections.abc import Sequence

import click

import pycore
from pycore.cli import errors
from pycore.cli.commands import Commands

# Shown by --help without loading the commands; a test holds each line equal to its command's own.
COMMANDS = {
    "run": "One policy on one workload: latencies, rates, goodput, and how the run checked itself.",
    "compare": "Several policies on the same requests, side by side.",
    "sweep": "The same run over arrival rates or chunk budgets, on all cores or on a Dask cluster.",
    "replay": "A trace file as it happened, on the machine and the limits given.",
    "validate": "The simulator beside two real vLLM runs; exit status 1 where a figure is off by more than 5 %.",
    "export": "A run as a Perfetto trace, or as CSV by request or by step.",
    "info": "The policies, workloads, step times and traces there are.",
}

HELP = """Simulate LLM serving with the scheduler that serves: which requests wait, for how long, and why.

\b
Examples:
  sched-sim run --scheduler chunked --chunk-budget 512 --workload stall --hardware "rtx 4090" --model llama-3.1-8b
  sched-sim run --workload "poisson rate=8 prompt=lognormal:1024 output=256 requests=500" --json
  sched-sim compare --schedulers chunked,fcfs,sjf --workload chat
  sched-sim sweep --over rate --workload chat
  sched-sim replay trace.csv --model llama-3.1-8b --hardware l40s --max-sequences 128 --limit 2000
  sched-sim validate
  sched-sim export perfetto --workload chat --out trace.json

\b
Exit status: 0 answered; 1 validate found a figure off by more than 5 %; 2 the question cannot be answered (the
message says why); 3 a fault of this program; 130 interrupted. Colour only on a terminal; NO_COLOR turns it off.
"""


@click.group(cls=Commands, package=__name__, lines=COMMANDS, help=HELP,
             context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pycore.__version__, prog_name="sched-sim")
def sched_sim() -> None:
    """See HELP."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the `sched-sim` script."""
    sys.exit(errors.run(sched_sim, arguments, "sched-sim"))
