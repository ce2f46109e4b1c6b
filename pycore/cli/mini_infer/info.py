"""`mini-infer info`: not there yet."""

import click

from pycore.errors import NotKnown


@click.command()
def command() -> None:
    """A model's sizes, tokenizer and memory a token, and what fits here (needs torch)."""
    raise NotKnown("this command is being written")
