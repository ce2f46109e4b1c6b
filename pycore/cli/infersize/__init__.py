"""The `infersize` command: one short file a subcommand, loaded when it is asked for."""

import sys
from collections.abc import Sequence

import click

import pycore
from pycore.cli import errors
from pycore.cli.commands import Commands

# Shown by --help without loading the commands; a test holds each line equal to its command's own.
COMMANDS = {
    "plan": "Will it fit, how fast, what does it cost: one deployment, every number explained.",
    "compare": "The matrix: one model on every accelerator, count and weight format.",
    "spec": "Speculative decoding: does a draft model pay, and until which batch.",
    "cost": "Dollars per million tokens, and how busy a machine must be to beat API offers.",
    "hub": "Plan for a model on the Hugging Face Hub, from its config and stored weights.",
    "fit": "Which models fit in the free memory of this machine's GPU.",
}

HELP = """Size LLM inference before renting or buying: memory, speed and cost, with the working shown.

\b
Examples:
  infersize plan --model qwen2.5-7b --gpu l40s --context 32k --sequences 8
  infersize plan --model llama-3.3-70b --quant awq --gpu "rtx 4090" --count 4 --json
  infersize plan --model qwen2.5-7b --explain "KV cache"
  infersize compare --model qwen2.5-7b --quant fp16 --only-fits --sort usd_per_million
  infersize spec --model llama-3.1-70b --draft-model llama-3.2-1b --gpu h100 --count 4
  infersize cost --model qwen2.5-7b --gpu l40s --utilisation 0.3
  infersize hub Qwen/Qwen2.5-7B-Instruct --gpu l4
  infersize fit

\b
Exit status: 0 answered; 1 it does not fit; 2 the question cannot be answered (the message says why);
3 a fault of this program; 130 interrupted. Colour only on a terminal; NO_COLOR turns it off.
"""


@click.group(cls=Commands, package=__name__, lines=COMMANDS, help=HELP,
             context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pycore.__version__, prog_name="infersize")
def infersize() -> None:
    """See HELP."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the `infersize` script."""
    sys.exit(errors.run(infersize, arguments, "infersize"))
