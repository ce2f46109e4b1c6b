"""What is said while a model is fetched, read or trained: on standard error, so that answers stay alone on the other."""

import click

from pycore.cli.output import plain


def say(text: str) -> None:
    """One line of it."""
    click.echo(plain(text), err=True)
