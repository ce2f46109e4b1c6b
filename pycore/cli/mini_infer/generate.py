"""`mini-infer generate`: not there yet."""

import click

from pycore.errors import NotKnown


@click.command()
def command() -> None:
    """Continue a prompt, or answer it, token by token as they come (needs torch)."""
    raise NotKnown("this command is being written")
