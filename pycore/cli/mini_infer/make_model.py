"""`mini-infer make-model`: not there yet."""

import click

from pycore.errors import NotKnown


@click.command()
def command() -> None:
    """A small model of random weights, or a tiny trained one, to try everything on (needs torch)."""
    raise NotKnown("this command is being written")
