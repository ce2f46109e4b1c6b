"""`mini-infer events`: a file that a running engine wrote, played and checked."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import DoesNotFit
from pycore.cli.mini_infer import drawing
from pycore.cli.options import QuestionCommand
from pycore.systems.mini_infer import Answer, answer
from pycore.systems.mini_infer_question import BYTES, Query

EPILOG = """\b
Examples:
  mini-infer generate --prompt "Hello" --events events.jsonl
  mini-infer events events.jsonl
  mini-infer events events.jsonl --first-step 200 --frame 3

\b
The scheduler decides again from the file's inputs; each step is compared with the file. Exit status 1 where a law fails.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("file", metavar="FILE")
@click.option("--first-step", metavar="N", help="From which step pictures are taken.")
@drawing.options(BYTES)
def command(file: str, pictures: bool, url: bool, as_json: bool, **options: Any) -> None:
    """A file that an engine wrote with --events: played on the scheduler, every law checked."""
    query = drawing.read(options, scene="recorded", events=file)
    drawing.show(query, {"pictures": pictures, "url": url, "as_json": as_json}, lambda found: show(found, pictures=pictures))
    hold(query)


def show(found: Answer, *, pictures: bool) -> None:
    """As text."""
    drawing.film(found, pictures=pictures)
    drawing.waste(found.waste)


def hold(query: Query) -> None:
    """Raises DoesNotFit where a law fails in some picture."""
    broken = answer(query).film.first_broken()
    if broken:
        frame, law = broken
        output.line(f"'{law.name}' fails in picture {frame.number}: {law.says}")
        raise DoesNotFit
