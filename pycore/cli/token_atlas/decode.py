"""`token-atlas decode`: a text from token ids."""

import json
import re
import sys

import click

from pycore.cli import output
from pycore.cli.token_atlas import own
from pycore.errors import InputError, SourceError

EPILOG = """\b
Examples:
  token-atlas decode 13225 2375
  token-atlas encode --text "Hello world" --ids | token-atlas decode
  token-atlas encode --text "Hello world" --json | token-atlas decode --json

\b
Ids stand apart by spaces or commas; the JSON of `token-atlas encode` is understood too. Into a pipe or a file the
bytes are written as they are; on a terminal control characters are written out.
"""
NUMBER = re.compile(r"[0-9]{1,10}")
ACCEPTED = "accepted: whole numbers from 0, apart by spaces or commas, or the JSON of `token-atlas encode`"


@click.command(epilog=EPILOG)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--tokenizer", "name", metavar="NAME", default="o200k_base", show_default=True,
              help="One of ours (token-atlas info), or the path of a tokenizer.json or .tiktoken.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(ids: tuple[str, ...], name: str, as_json: bool) -> None:
    """Token ids as text again."""
    wanted, tokenizer = read(" ".join(ids) if ids else standard_input()), own.one(name)
    try:
        data = tokenizer.decode_bytes(wanted)
    except InputError as error:
        raise InputError("", error.value, error.accepted) from None
    text = data.decode("utf-8", "replace")
    if as_json:
        output.write_json({"tokenizer": tokenizer.name, "text": text, "bytes": data.hex(),
                           "valid_utf8": text.encode() == data})
    elif sys.stdout.isatty():
        output.line(text)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def read(text: str) -> list[int]:
    """The ids that a text lists. Raises InputError."""
    if text.lstrip()[:1] in ("{", "["):
        return from_json(text)
    words = text.replace(",", " ").split()
    for word in words:
        if not NUMBER.fullmatch(word):
            raise InputError("", word, ACCEPTED)
    return [int(word) for word in words]


def from_json(text: str) -> list[int]:
    """The ids of a JSON list, or of an object's `ids`. Raises InputError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("", text, ACCEPTED) from None
    found = found.get("ids") if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(type(one) is int and one >= 0 for one in found):
        raise InputError("", text, ACCEPTED)
    return found


def standard_input() -> str:
    """What the pipe holds. Raises SourceError."""
    if sys.stdin is None or sys.stdin.closed:
        raise SourceError("standard input", "is closed; give the ids as arguments")
    if sys.stdin.isatty():
        click.echo("Type the ids, then end with Ctrl-D on an empty line (or give them as arguments).", err=True)
    return sys.stdin.buffer.read().decode("utf-8", "replace")
