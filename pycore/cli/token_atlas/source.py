"""The text that a command is about: --text, --file or standard input, read in pieces so that any size is bounded.

Nothing is added or taken away: line ends, a final line feed and a byte-order mark are part of the text.
"""

import codecs
import contextlib
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import click

from pycore.cli.options import shortened
from pycore.errors import InputError, SourceError

PIECE_BYTES = 1 << 18
SPOOL_BYTES = 1 << 22
"""What of a pipe is kept in memory; more of it goes to a temporary file, for each tokenizer reads the text anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Bytes that can be read from the beginning as often as wanted, and how many they are; `field`: the option's."""

    name: str
    field: str | None
    stream: BinaryIO
    size: int


def options(command: Callable) -> Callable:
    """Decorator: the command takes --text and --file."""
    for option in (
            click.option("--file", "file", metavar="FILE", help="A UTF-8 text file of any size; - for standard input."),
            click.option("--text", "text", metavar="TEXT", help="The text itself. Without either: standard input.")):
        command = option(command)
    return command


@contextlib.contextmanager
def opened(text: str | None, file: str | None) -> Iterator[Source]:
    """The source that the options name. Raises InputError, SourceError."""
    if text is not None and file is not None:
        raise InputError("file", file, "accepted: --text or --file, not both")
    if text is not None:
        yield measured("the argument", io.BytesIO(given(text)), "text")
    elif file is None or file == "-":
        with spooled("standard input", standard_input()) as stream:
            yield measured("standard input", stream, None)
    else:
        try:
            opened_file = open(file, "rb")  # closed below: an error inside the block is not one of opening
        except (OSError, ValueError) as error:
            raise SourceError(shortened(file), f"cannot be read: {reason(error)}", "file") from None
        with opened_file, contextlib.ExitStack() as stack:
            seekable = opened_file.seekable()
            stream = opened_file if seekable else stack.enter_context(spooled(shortened(file), opened_file))
            yield measured(shortened(file), stream, "file")


def measured(name: str, stream: BinaryIO, field: str | None) -> Source:
    """A source whose size is known."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    return Source(name=name, field=field, stream=stream, size=size)


def spooled(name: str, stream: BinaryIO) -> BinaryIO:
    """A pipe's content, to be read again. Raises SourceError."""
    made = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)
    try:
        shutil.copyfileobj(stream, made, PIECE_BYTES)
    except OSError as error:
        raise SourceError(name, f"cannot be read: {reason(error)}", "file") from None
    return made


def reason(error: Exception) -> str:
    """Why a file could not be read, in the system's words."""
    return getattr(error, "strerror", None) or str(error)


def given(text: str) -> bytes:
    """An argument's bytes. What the shell passed is kept byte for byte; decoding finds fault with it, if there is one."""
    return text.encode("utf-8", "surrogateescape" if all("\udc80" <= letter <= "\udcff" for letter in text
                                                         if "\ud800" <= letter <= "\udfff") else "surrogatepass")


def standard_input() -> BinaryIO:
    """Standard input; whoever sits before it is told what is waited for. Raises SourceError where there is none."""
    if sys.stdin is None or sys.stdin.closed:
        raise SourceError("standard input", "is closed; give --text or --file", "text")
    if sys.stdin.isatty():
        click.echo("Type or paste the text, then end with Ctrl-D on an empty line (or use --text, --file).", err=True)
    return sys.stdin.buffer


def pieces(source: Source, seen: Callable[[int], None] = lambda count: None) -> Iterator[str]:
    """The text, some 256 KiB at a time, cut between characters. `seen` is told the bytes read so far.

    Raises SourceError naming the offset of the first byte that is no UTF-8.
    """
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    source.stream.seek(0)
    while True:
        try:
            content = source.stream.read(PIECE_BYTES)
        except OSError as error:
            raise SourceError(source.name, f"cannot be read: {reason(error)}", source.field) from None
        held = len(decoder.getstate()[0])
        try:
            text = decoder.decode(content, final=not content)
        except UnicodeDecodeError as error:
            raise SourceError(source.name, fault(error, done - held), source.field) from None
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


def whole(source: Source, most: int) -> str | None:
    """The text where it has at most `most` bytes, else None. Raises SourceError."""
    return "".join(pieces(source)) if source.size <= most else None
