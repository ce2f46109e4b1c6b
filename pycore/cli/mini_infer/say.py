"""What is said beside an answer (what is fetched, figures, hints): on standard error, where no answer goes."""

import sys

import click

from pycore.cli.output import plain


def say(text: str, *, style: str | None = None) -> None:
    """One line of it; `style` is a rich style such as 'dim', seen on a terminal only."""
    if style is None or not sys.stderr.isatty():
        click.echo(plain(text), err=True)
        return
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, markup=False, highlight=False, emoji=False).print(Text(plain(text), style=style), soft_wrap=True)
