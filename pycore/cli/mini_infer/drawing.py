"""From options to a scene, and a scene as text or JSON: what the commands share that draw blocks."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from pycore.cache import is_upload, keep_open
from pycore.cli import output
from pycore.cli.options import long_text, question
from pycore.errors import InputError, SourceError
from pycore.knobs import knobs, parse, to_url
from pycore.ledger import Term
from pycore.scenes.film import Film, Frame
from pycore.scenes.waste import NAMES, Comparison
from pycore.systems.mini_infer import Answer
from pycore.systems.mini_infer_question import Query

TEXTS = ("script", "prompts")  # given as the text itself or as the name of a file


def options(*groups: str) -> Callable:
    """Decorator: the command takes --frame, --pictures, --json, --url and the question's fields of these groups."""
    def decorate(command: Callable) -> Callable:
        wanted = {knob.name for knob in knobs(Query) if knob.group in groups} | {"frame"}
        command = question(Query, leave_out={knob.name for knob in knobs(Query)} - wanted)(command)
        command = click.option("--pictures", is_flag=True,
                               help="Every picture in full, not only the one of --frame.")(command)
        command = click.option("--url", is_flag=True,
                               help="Print only the query string that opens this on the page.")(command)
        return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)

    return decorate


def read(given: Mapping[str, Any], **fixed: Any) -> Query:
    """The question that the options mean. Raises InvalidQuery, InputError, SourceError."""
    found = {name: value for name, value in given.items() if value is not None} | fixed
    if sum(found.get(name) == "-" for name in (*TEXTS, "events")) > 1:
        raise InputError("events", "-", "accepted: standard input for one option only")
    for name in TEXTS:
        if name in found:
            found[name] = text_of(name, found[name])
    if found.get("events"):
        found["events"] = kept(found["events"])
    return parse(Query, found)


def text_of(field: str, value: str) -> str:
    """A text: of standard input, of a file of that name, or the value itself where it has a space. Raises SourceError."""
    try:
        there = Path(value).is_file()
    except (OSError, ValueError):
        there = False
    return value if not there and value != "-" and " " in value.strip() else long_text(field, value)


def kept(value: str) -> str:
    """A reference to a file of events, which is read as it is played; standard input is read whole. Raises SourceError."""
    if value == "-" or value.lstrip().startswith("{"):
        return long_text("events", value)
    name = value.rpartition(":")[2] if is_upload(value) else value  # a command that the page shows for a file chosen there
    path = Path(name)

    def ranged(first: int, count: int) -> bytes:
        with path.open("rb") as file:
            file.seek(first)
            return file.read(count)

    try:
        ranged(0, 1)
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise SourceError(name[:80], f"cannot be read: {getattr(error, 'strerror', None) or error}", "events") from None
    return keep_open(path.name, size, ranged, str(path))


# Text ---------------------------------------------------------------------------------------------------------------


def film(answer: Answer, *, pictures: bool) -> None:
    """The pictures, a line each, then the one that was asked for (with `pictures` all of them) in full."""
    whole = answer.film
    if not pictures:
        output.heading(f"{answer.count} pictures; the pool one character a block: . blank, - cached, else how many hold it")
        output.table(("", "pool", "what happens", "laws"), [
            (f"{one.number}{' <' if one.number == answer.number else ''}", strip(one), one.what, laws_of(one))
            for one in whole.frames])
    for one in whole.frames if pictures else (answer.frame,):
        picture(whole, one)
    for note in answer.notes:
        output.line(note)


def strip(frame: Frame, most: int = 64) -> str:
    """The pool in characters."""
    drawn = "".join({"blank": ".", "cached": "-"}.get(block.state, str(min(block.references, 9)))
                    for block in frame.blocks[:most])
    return drawn + ("…" if len(frame.blocks) > most else "")


def laws_of(frame: Frame) -> str:
    """'all hold', or the names of those that do not."""
    return ", ".join(law.name for law in frame.invariants if not law.holds) or "all hold"


def picture(film: Film, frame: Frame) -> None:
    """One picture in full."""
    output.heading(f"Picture {frame.number} of {len(film.frames)}. {frame.what}")
    for said in frame.lines:
        output.line(f"  {said}")
    output.table(("block", "state", "references", "filled", "held by", "key", "tokens"), [
        (block.block, block.state, block.references, f"{block.filled} of {film.block_size}", ", ".join(block.holders),
         block.key, " ".join(block.tokens)) for block in frame.blocks if block.state != "blank"], right=(0, 2, 3))
    if frame.tables:
        output.table(("sequence", "status", "computed", "blocks", "last tokens"), [
            (table.sequence, f"{table.status}: {table.waits}" if table.waits else table.status,
             f"{table.computed} of {table.prompt + table.generated}", " ".join(map(str, table.blocks or table.host_blocks)),
             " ".join(table.tokens[-8:])) for table in frame.tables], right=(2,))
    output.line(f"  Free, next first: {' '.join(map(str, frame.free)) or 'none'}")
    for law in frame.invariants:
        output.line(f"  {'holds' if law.holds else 'FAILS'}  {law.name}: {law.says}")


def waste(found: Comparison) -> None:
    """Paging and its rivals."""
    output.heading("Memory for the sequences that run in this picture")
    output.table(("", "reserved", "wasted", "share", "bytes", "share over the film"), [
        (NAMES[one.name], one.reserved.text, one.wasted.text, one.share.text if one.share else "", one.size.text,
         one.over_film.text if one.over_film else "") for one in found.allocations], right=(1, 2, 3, 4, 5))
    output.line(f"  Sharing spares {found.spared.text}. At most {found.most_running} ran together; in one piece each of the "
                f"longest text {found.most_contiguous.text} would fit.")


# JSON ---------------------------------------------------------------------------------------------------------------


def document(answer: Answer, *, pictures: bool) -> dict[str, Any]:
    """What --json prints of any scene; `frames` in full with `pictures`, else what happens in each."""
    whole = answer.film
    made = {"scene": answer.query.scene, "url": "?" + to_url(answer.query), "frame_number": answer.number,
            "frames": [plain(one) if pictures else {"number": one.number, "what": one.what, "tags": list(one.tags),
                                                    "used": one.used, "holds": one.holds} for one in whole.frames],
            "frame": plain(answer.frame), "texts": plain(whole.texts), "notes": list(answer.notes)}
    parts = ("waste", "conversation", "waterfall", "exhibit")
    made |= {name: plain(getattr(answer, name)) for name in parts if getattr(answer, name) is not None}
    if answer.break_even is not None:
        made["break_even"] = {"batches": plain(answer.break_even.batches), "most": plain(answer.break_even.most),
                              "verdict": answer.break_even.speculation.verdict}
    return made


def plain(value: Any) -> Any:
    """Dataclasses as objects (films and functions left out: `frames` has them), terms as value, unit and text."""
    if isinstance(value, Term):
        return {"value": value.value, "unit": value.unit, "text": value.text}
    if dataclasses.is_dataclass(value):
        return {field.name: plain(one) for field in dataclasses.fields(value)
                if not isinstance(one := getattr(value, field.name), Film) and not callable(one)}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def show(query: Query, options: Mapping[str, Any], text: Callable[[Answer], None]) -> None:
    """Answer and print in the form that was asked for; `text` prints the text. Raises StudioError."""
    from pycore.systems.mini_infer import answer

    if options.get("url"):
        output.line("?" + to_url(query))
        return
    found = answer(query)
    if options.get("as_json"):
        output.write_json(document(found, pictures=options["pictures"]) if found.film else {"scene": query.scene})
    else:
        text(found)
