"""`token-atlas ask`: all that the page shows for one question; the command that a page gives is this one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pycore.cache import is_upload, keep_upload
from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.token_atlas import asking, compare, cost, language, matrix, own, rank, source
from pycore.errors import InputError
from pycore.knobs import TEXT_LIMIT, knobs
from pycore.systems.token_atlas import Answer, Query, answer

FIELDS = tuple(knob.name for knob in knobs(Query) if knob.name != "text")
EPILOG = """\b
Examples:
  token-atlas ask --text "Hello world" --language tamil
  token-atlas ask --language thai --measure absolute --explain premium
  token-atlas ask --tokenizers all --json

\b
Without --text and --file: Article 1 of the Universal Declaration in the language. Each part has a command of its own
that says more: compare, language, matrix, rank, cost.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@source.options
@asking.explained
@asking.options(*FIELDS)
def command(text: str | None, file: str | None, explain: str | None, **options: Any) -> None:
    """All that the page shows for one question: text, language, matrix, ranks and bill."""
    as_json = flag(options, "as_json")
    query = asking.read(options | {"own": kept(options["own"])})
    if text is not None or file is not None:
        query = replace(query, text=short(text, file))
    found = answer(query)
    if explain is not None:
        asking.explain(found.terms, explain)
    elif as_json:
        output.write_json(document(found))
    else:
        show(found)


def short(text: str | None, file: str | None) -> str:
    """The text, as long as a question may be. Raises InputError, SourceError."""
    with source.opened(text, file) as opened:
        whole = source.whole(opened, TEXT_LIMIT)
    if whole is None:
        raise InputError("file" if text is None else "text", f"{opened.size:,} bytes",
                         f"accepted: at most {TEXT_LIMIT:,} bytes; `token-atlas compare` counts files of any size")
    return whole


def kept(name: str | None) -> str | None:
    """A file's reference: one given as a path is kept as the page keeps it. Raises SourceError."""
    if not name or is_upload(name):
        return name
    return keep_upload(Path(name).name, own.content(name, "own"))


def document(found: Answer) -> dict[str, Any]:
    """Every part as its own command gives it."""
    query = found.query
    return asking.setting(query) | {
        "text": found.text, "sample": None if found.sample is None else found.sample.code,
        "comparison": compare.document(
            (len(found.text), len(found.text.encode())), list(found.live), [(one.name, one.says) for one in found.missing]),
        "story": language.document(found.story),
        "matrix": {"measure": found.matrix.measure, "says": found.matrix.says, "rows": matrix.rows(found.matrix)},
        "ranking": [rank.place(one) for one in found.ranking], "models": [rank.model(one) for one in found.placed],
        "bill": cost.document(found.bill), "terms": [term.as_dict() for term in found.terms],
    }


def show(found: Answer) -> None:
    """One part under another."""
    query = found.query
    if found.sample is not None:
        output.line(f"Article 1 of the Universal Declaration of Human Rights in {found.sample.name}")
    cuts = {one.name: "|".join(compare.shown(bytes.fromhex(piece.hex)) for piece in one.pieces) for one in found.live}
    compare.show(found.text, (len(found.text), len(found.text.encode())), list(found.live),
                 [(one.name, one.says) for one in found.missing], cuts)
    output.line()
    language.show(query, found.story.language, [found.story], found.story)
    output.line()
    matrix.show(query, found.matrix)
    output.line()
    rank.show_fairness(query, found.ranking)
    output.line()
    rank.show(query, found.story.language.name, found.placed)
    output.line()
    cost.show(found.bill)
