"""`mini-infer blocks`: requests arrive, grow, fork and finish in a small pool; every block after every step."""

from pathlib import Path
from typing import Any

import click

from pycore.cli import output
from pycore.cli.mini_infer import drawing
from pycore.cli.options import QuestionCommand
from pycore.errors import SourceError
from pycore.scenes import script
from pycore.systems.mini_infer import Answer
from pycore.systems.mini_infer_question import BYTES, EVENTS, POOL, Query, setting

EPILOG = """\b
Examples:
  mini-infer blocks
  mini-infer blocks --script "add A 10 +8; step 2; fork A as B" --blocks 8 --frame 4
  mini-infer blocks --events events.jsonl                 # for the page, or mini-infer events

\b
Events: add NAME PROMPT +OUTPUT [like NAME TOKENS] [priority N]; fork NAME as NEW; abort NAME; step [N].
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--events", metavar="FILE", help="Write what the scheduler decided to FILE, as a running engine does.")
@drawing.options(EVENTS, POOL, BYTES)
def command(events: str | None, pictures: bool, url: bool, as_json: bool, **options: Any) -> None:
    """Block tables: requests arrive, grow, fork and finish; every block after every step."""
    query = drawing.read(options, scene="blocks")
    if events is not None:
        write(query, events)
    drawing.show(query, {"pictures": pictures, "url": url, "as_json": as_json}, lambda found: show(found, pictures=pictures))


def show(found: Answer, *, pictures: bool) -> None:
    """As text."""
    drawing.film(found, pictures=pictures)
    drawing.waste(found.waste)
    output.heading("What came out")
    output.table(("", "prompt", "found", "preempted", "output", "status"), [
        (text.sequence, f"{len(text.prompt)} tokens", f"{text.cached} tokens", text.preemptions, " ".join(text.output),
         text.status) for text in found.film.texts], right=(1, 2, 3))


def write(query: Query, name: str) -> None:
    """The scene's event file. Raises SourceError, InputError."""
    text = script.recorded(query.script, setting(query))
    try:
        Path(name).write_text(text, encoding="ascii", newline="\n")
    except (OSError, ValueError) as error:
        raise SourceError(name[:80], f"cannot be written: {getattr(error, 'strerror', None) or error}", "events") from None
