"""`mini-infer scene`: all that the page shows for one question; the command that a page gives is this one."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.mini_infer import blocks, drawing, events, museum, radix, speculate
from pycore.cli.options import QuestionCommand
from pycore.systems import mini_infer_question as groups
from pycore.systems.mini_infer import Answer

EPILOG = """\b
Examples:
  mini-infer scene --scene radix --conversation few-shot
  mini-infer scene --scene museum --fault hash-collision --frame 8

\b
Each scene has a command of its own: blocks, radix, speculate, museum, events.
"""
SHOWS = {"blocks": blocks.show, "radix": radix.show, "speculation": speculate.show, "museum": museum.show,
         "recorded": events.show}


@click.command(cls=QuestionCommand, epilog=EPILOG)
@drawing.options(groups.SCENE, groups.EVENTS, groups.POOL, groups.PROMPTS, groups.SPECULATION, groups.MUSEUM,
                groups.RECORDED, groups.BYTES)
def command(pictures: bool, url: bool, as_json: bool, **options: Any) -> None:
    """All that the page shows for one question."""
    query = drawing.read(options)
    drawing.show(query, {"pictures": pictures, "url": url, "as_json": as_json}, lambda found: show(found, pictures=pictures))


def show(found: Answer, *, pictures: bool) -> None:
    """As text."""
    if found.film is None:
        output.line(found.notes[0])
        return
    SHOWS[found.query.scene](found, pictures=pictures)
