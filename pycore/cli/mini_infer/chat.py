"""`mini-infer chat`: not there yet."""

import click

from pycore.errors import NotKnown


@click.command()
def command() -> None:
    """Talk with a model; Ctrl-C ends an answer, not the talk (needs torch)."""
    raise NotKnown("this command is being written")
