"""`token-atlas encode`: ids and pieces of a text."""

import json
import re
import sys
from array import array
from collections.abc import Iterable
from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.progress import bar
from pycore.cli.token_atlas import asking, own, source
from pycore.cli.token_atlas.source import Source
from pycore.tokens.stream import counted
from pycore.tokens.tokenizer import Tokenizer
from pycore.units import MB

EPILOG = """\b
Examples:
  token-atlas encode --text "Hello world"
  echo -n "Hello world" | token-atlas encode --tokenizer llama3 --json
  token-atlas encode --text "Hello world" --ids | token-atlas decode
  token-atlas encode --tokenizer ./tokenizer.json --file notes.txt --ids

\b
--json: ids; pieces, where a byte that is no whole character by itself is written <0xE0>; piece_bytes, in hex.
Nothing is added: no special token at the beginning, none at the end. Special tokens are text unless --specials.
"""
LINE = 4096
BREAKS = {10: "\\n", 13: "\\r", 9: "\\t"}
"""Written out, so that a token is a line."""
STRAY = re.compile("[\udc80-\udcff]")


@click.command(cls=QuestionCommand, epilog=EPILOG)
@source.options
@click.option("--ids", "only_ids", is_flag=True, help="Print only the ids, with spaces between them.")
@click.option("--tokenizer", "name", metavar="NAME", default="o200k_base", show_default=True,
              help="One of ours (token-atlas info), or the path of a tokenizer.json or .tiktoken.")
@asking.options("specials")
def command(text: str | None, file: str | None, only_ids: bool, name: str, **options: Any) -> None:
    """A text as token ids and pieces."""
    as_json = flag(options, "as_json")
    query = asking.read(options)
    with source.opened(text, file) as opened:
        tokenizer = own.one(name)
        ids = encoded(opened, tokenizer, query.specials)
    if as_json:
        write_json(tokenizer, ids)
    elif only_ids:
        for start in range(0, len(ids), LINE):
            click.echo(" ".join(map(str, ids[start:start + LINE])))
    else:
        for number in ids:
            click.echo(f"{number}\t{output.plain(written(tokenizer.piece(number))).translate(BREAKS)}")


def encoded(opened: Source, tokenizer: Tokenizer, specials: bool) -> array:
    """The ids, four bytes each: a long text is encoded part by part. Raises SourceError, InputError."""
    ids = array("I")

    def keep(part: str) -> int:
        found = tokenizer.ids(part, specials=specials)
        ids.extend(found)
        return len(found)

    with bar() as report:
        def seen(done: int) -> None:
            report(f"{done / MB:,.1f} of {opened.size / MB:,.1f} MB", done / opened.size if opened.size else 1.0)

        for _ in counted(keep, tokenizer.joints, source.pieces(opened, seen)):
            pass
    return ids


def written(piece: bytes) -> str:
    """A piece as text; bytes that are no whole character as <0xE0>, as SentencePiece writes them."""
    return STRAY.sub(lambda found: f"<0x{ord(found[0]) - 0xDC00:02X}>", piece.decode("utf-8", "surrogateescape"))


def write_json(tokenizer: Tokenizer, ids: array) -> None:
    """One object, written as it is made: of a long text the ids are held, nothing else."""
    stream = sys.stdout
    pieces = {number: tokenizer.piece(number) for number in set(ids)}
    stream.write(f'{{\n  "tokenizer": {json.dumps(tokenizer.name)},\n  "count": {len(ids)}')
    lists: tuple[tuple[str, Iterable], ...] = (
        ("ids", ids), ("pieces", (written(pieces[number]) for number in ids)),
        ("piece_bytes", (pieces[number].hex() for number in ids)))
    for key, values in lists:
        stream.write(f',\n  "{key}": [')
        for index, value in enumerate(values):
            stream.write((", " if index else "") + json.dumps(value))
        stream.write("]")
    stream.write("\n}\n")
    stream.flush()
