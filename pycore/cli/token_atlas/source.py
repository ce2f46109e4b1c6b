"""The text that a command is about: --text, --file or standard input, read in pieces so that any size is bounded.

Nothing is added or taken away: line ends, a final line feed and a byte-order mark are part of the text.
"""

import codecs
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import click

from pycore.cli.options import shortened
from pycore.errors import InputError, SourceError

PIECE_BYTES = 1 << 18
MARK = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Bytes to read once. `size` is None where it cannot be known before the end (a pipe)."""

    name: str
    stream: BinaryIO
    size: int | None


def options(command: Callable) -> Callable:
    """Decorator: the command takes --text and --file."""
    for option in (
            click.option("--file", "file", metavar="FILE", help="A UTF-8 text file of any size; - for standard input."),
            click.option("--text", "text", metavar="TEXT", help="The text itself. Without either: standard input.")):
        command = option(command)
    return command


@contextmanager
def opened(text: str | None, file: str | None) -> Iterator[Source]:
    """The source that the options name. Raises InputError, SourceError."""
    if text is not None and file is not None:
        raise InputError("file", file, "accepted: --text or --file, not both")
    if text is not None:
        content = given(text)
        yield Source(name="--text", stream=io.BytesIO(content), size=len(content))
    elif file is None or file == "-":
        yield standard_input()
    else:
        try:
            stream = open(file, "rb")  # closed below: an error inside the block is not one of opening
            size = os.fstat(stream.fileno()).st_size
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise SourceError(shortened(file), f"cannot be read: {reason}", "file") from None
        with stream:
            yield Source(name=shortened(file), stream=stream, size=size if os.path.isfile(file) else None)


def given(text: str) -> bytes:
    """An argument's bytes. What the shell passed is kept byte for byte; decoding finds fault with it, if there is one."""
    return text.encode("utf-8", "surrogateescape" if all("\udc80" <= letter <= "\udcff" for letter in text
                                                         if "\ud800" <= letter <= "\udfff") else "surrogatepass")


def standard_input() -> Source:
    """Standard input; whoever sits before it is told what is waited for. Raises SourceError where there is none."""
    if sys.stdin is None or sys.stdin.closed:
        raise SourceError("standard input", "is closed; give --text or --file", "text")
    if sys.stdin.isatty():
        click.echo("Type or paste the text, then end with Ctrl-D on an empty line (or use --text, --file).", err=True)
    return Source(name="standard input", stream=getattr(sys.stdin, "buffer", sys.stdin), size=None)


def pieces(source: Source, seen: Callable[[int], None] = lambda count: None) -> Iterator[str]:
    """The text, some 256 KiB at a time, cut between characters. `seen` is told the bytes read so far.

    Raises SourceError naming the offset of the first byte that is no UTF-8.
    """
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    while True:
        try:
            content = source.stream.read(PIECE_BYTES)
        except OSError as error:
            raise SourceError(source.name, f"cannot be read: {error.strerror or error}", "file") from None
        held = len(decoder.getstate()[0])
        try:
            text = decoder.decode(content, final=not content)
        except UnicodeDecodeError as error:
            raise SourceError(source.name, fault(error, done - held), "text") from None
        done += len(content)
        seen(done)
        if text:
            yield text
        if not content:
            return


def fault(error: UnicodeDecodeError, before: int) -> str:
    """What is wrong where, in words. `before`: bytes of the source before those that the error speaks of."""
    byte = error.object[error.start]
    return (f"not UTF-8 text: byte 0x{byte:02x} at offset {before + error.start:,} ({error.reason}). "
            "Convert it first, e.g. iconv -f LATIN1 -t UTF-8")


def whole(source: Source, most: int) -> tuple[str, Iterator[str] | None]:
    """(the text, None) where it has at most `most` characters, else (its beginning, the iterator over the rest)."""
    held, size, rest = [], 0, pieces(source)
    for piece in rest:
        held.append(piece)
        size += len(piece)
        if size > most:
            return "".join(held), rest
    return "".join(held), None
