"""`mini-infer museum`: famous faults brought back, the text that they spoil, and the law that catches each."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.mini_infer import drawing
from pycore.cli.options import QuestionCommand
from pycore.scenes.museum import exhibit
from pycore.systems.mini_infer import FAULTS, Answer
from pycore.systems.mini_infer_question import MUSEUM

EPILOG = """\b
Examples:
  mini-infer museum                                   # all of them, a line each
  mini-infer museum --fault no-copy-on-write          # one, picture by picture
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@drawing.options(MUSEUM)
def command(pictures: bool, url: bool, as_json: bool, **options: Any) -> None:
    """Famous faults brought back, the text that they spoil, and the law that catches each."""
    if options["fault"] is None and not (url or as_json or options["frame"]):
        everything()
        return
    query = drawing.read(options, scene="museum")
    drawing.show(query, {"pictures": pictures, "url": url, "as_json": as_json}, lambda found: show(found, pictures=pictures))


def everything() -> None:
    """All faults, a line each."""
    output.table(("fault", "what happens", "caught by", "in picture", "first wrong token in"), [
        (name, fault.title, found.law.name if found.law else "nothing", found.caught or "", found.diverges or "none comes")
        for name, fault in FAULTS.items() if (found := exhibit(name))], right=(3, 4))


def show(found: Answer, *, pictures: bool) -> None:
    """One fault as text."""
    shown = found.exhibit
    output.line(shown.fault.title, style="bold")
    for said in (shown.fault.what, f"Right: {shown.fault.right}", f"Seen in: {shown.fault.seen}"):
        output.line(said)
    drawing.film(found, pictures=pictures)
    output.heading("What came out")
    output.table(("", "right", "broken", "differs from token"), [
        (one.sequence, " ".join(one.right), " ".join(one.wrong), "" if one.differs_at is None else one.differs_at + 1)
        for one in shown.outputs], right=(3,))
    if shown.law:
        output.line(f"Caught in picture {shown.caught} by '{shown.law.name}' ({shown.law.law}): {shown.law.says}")
