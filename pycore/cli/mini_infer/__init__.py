"""The `mini-infer` command: one short file a subcommand, loaded when it is asked for."""

import sys
from collections.abc import Sequence

import click

import pycore
from pycore.cli import errors
from pycore.cli.commands import Commands

# Shown by --help without loading the commands; a test holds each line equal to its command's own.
COMMANDS = {
    "serve": "An OpenAI-compatible server: completions, chats, streams, metrics (needs torch).",
    "generate": "Continue a prompt, or answer it, token by token as they come (needs torch).",
    "chat": "Talk with a model; Ctrl-C ends an answer, not the talk (needs torch).",
    "info": "A model's sizes, tokenizer and memory a token, and what fits here (needs torch).",
    "prove": "Cold = prefix hit = chunked = preempted and resumed = batch of one, held logit by logit (needs torch).",
    "soak": "Minutes of random requests, rude clients and too small a pool: no leak, no wrong text, no hang (needs torch).",
    "speedup": "What speculation saves here: the same texts with guesses and without, side by side (needs torch).",
    "bench": "How fast a model reads and writes here, at several numbers of requests at once (needs torch).",
    "make-model": "A small model of random weights, or a tiny trained one, to try everything on (needs torch).",
    "scene": "All that the page shows for one question.",
    "blocks": "Block tables: requests arrive, grow, fork and finish; every block after every step.",
    "radix": "The prefix cache: prompts that share prefixes; hits, splits, copies on write, evictions.",
    "speculate": "Speculative decoding token by token: chances, draws, verdicts, wasted positions.",
    "museum": "Famous faults brought back, the text that they spoil, and the law that catches each.",
    "events": "A file that an engine wrote with --events: played on the scheduler, every law checked.",
}

HELP = """A language model served in plain torch, every block of its memory in sight.

\b
Examples:
  mini-infer generate --prompt "The capital of France is"
  mini-infer chat
  mini-infer serve --port 8000
  mini-infer info
  mini-infer make-model --out tiny
  mini-infer generate tiny --prompt "Once" --prompt "Twice" --json
  mini-infer museum

\b
Exit status: 0 answered; 1 answered, and what should hold does not (prove, soak, speedup, events); 2 the question cannot be
answered (the message says why); 3 a fault of this program; 130 interrupted. Colour only on a terminal; NO_COLOR turns it
off.
"""


@click.group(cls=Commands, package=__name__, lines=COMMANDS, help=HELP,
             context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pycore.__version__, prog_name="mini-infer")
def mini_infer() -> None:
    """See HELP."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the `mini-infer` script."""
    sys.exit(errors.run(mini_infer, arguments, "mini-infer"))
