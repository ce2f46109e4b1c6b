"""From bytes to lines: gzip unpacked on the way, UTF-8 checked, sizes limited; nothing is held but the current line."""

import zlib
from collections.abc import Iterator
from os import PathLike
from typing import BinaryIO, NamedTuple

from pycore.simulation.traces.faults import TraceError

CHUNK = 1 << 16
MOST_BYTES = 512 << 20  # unpacked
GZIP = b"\x1f\x8b"
FOREIGN = ((b"PK\x03\x04", "a ZIP archive or a spreadsheet"), (b"PAR1", "Parquet"), (b"BZh", "bzip2"),
           (b"\xfd7zXZ", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xff\xfe", "UTF-16 text"), (b"\xfe\xff", "UTF-16 text"),
           (b"%PDF", "PDF"), (b"version https://git-lfs", "a pointer of Git LFS, not the file itself"))
UTF8_MARK = b"\xef\xbb\xbf"

Source = str | bytes | PathLike | BinaryIO
"""Text, bytes, the path of a file, or an open binary file. A `str` is the content itself."""


class Line(NamedTuple):
    """A line without its end; `number` counts from 1."""

    number: int
    text: str


def lines(source: Source, file: str, most_bytes: int = MOST_BYTES) -> Iterator[Line]:
    """The file's lines, blank ones left out.

    Raises TraceError: unreadable, empty, too large, a foreign format, a broken or truncated gzip, not UTF-8 (with the
    byte's offset).
    """
    number, offset, rest, blank = 0, 0, [], True
    for chunk in limited(unpacked(packed(source, file), file), file, most_bytes):
        head, end, tail = chunk.rpartition(b"\n")
        if not end:
            rest.append(tail)
            continue
        block = b"".join([*rest, head])
        for text in texts(block, file, number, offset):
            number += 1
            if text and not text.isspace():
                blank = False
                yield Line(number, text)
        offset += len(block) + 1
        rest = [tail]
    last = b"".join(rest)
    if last.strip():
        blank = False
        yield Line(number + 1, decoded(last, file, number + 1, offset))
    if blank:
        raise TraceError(file, None, "the file is empty; accepted: a trace as CSV, JSON or JSON lines")


def texts(block: bytes, file: str, before: int, offset: int) -> Iterator[str]:
    """The lines of a block, decoded at once where nothing is wrong with it, else one by one up to the fault.

    `before`: lines before it; `offset`: bytes before it.
    """
    if before and b"\0" not in block:
        try:
            yield from block.decode("utf-8").replace("\r\n", "\n").removesuffix("\r").split("\n")
            return
        except UnicodeDecodeError:
            pass
    for number, part in enumerate(block.split(b"\n"), before + 1):
        yield decoded(part, file, number, offset)
        offset += len(part) + 1


def decoded(line: bytes, file: str, number: int, offset: int) -> str:
    """One line as text. Raises TraceError with the offset of the first byte that is not UTF-8."""
    if number == 1 and line.startswith(UTF8_MARK):
        line, offset = line[3:], offset + 3
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise TraceError(file, f"byte 0x{line[fault.start]:02x}", "accepted: text in UTF-8", line=number,
                         column_number=fault.start + 1, offset=offset + fault.start) from None
    if "\0" in text:
        raise TraceError(file, "byte 0x00", "this is not text; accepted: CSV, JSON or JSON lines, also gzipped",
                         line=number, offset=offset + line.index(b"\0"))
    return text.removesuffix("\r")


def packed(source: Source, file: str) -> Iterator[bytes]:
    """The bytes as they lie, a chunk at a time."""
    if isinstance(source, str):
        source = source.encode("utf-8", "surrogatepass")
    if isinstance(source, bytes | bytearray | memoryview):
        yield from (bytes(source[start:start + CHUNK]) for start in range(0, len(source), CHUNK))
        return
    try:
        if isinstance(source, PathLike):
            with open(source, "rb") as opened:
                yield from iter(lambda: opened.read(CHUNK), b"")
        else:
            yield from iter(lambda: source.read(CHUNK), b"")
    except OSError as fault:
        raise TraceError(file, None, f"the file cannot be read: {fault.strerror or fault}") from None


def unpacked(chunks: Iterator[bytes], file: str) -> Iterator[bytes]:
    """The same bytes, gzip undone; foreign formats are refused by name."""
    first = b""
    for chunk in chunks:
        first += chunk
        if len(first) >= 32:
            break
    for magic, name in FOREIGN:
        if first.startswith(magic):
            raise TraceError(file, None, f"this is {name}; accepted: UTF-8 text as CSV, JSON or JSON lines, also gzipped")
    if first.startswith(GZIP):
        yield from gunzip(first, chunks, file)
    else:
        yield first
        yield from chunks


def gunzip(first: bytes, chunks: Iterator[bytes], file: str) -> Iterator[bytes]:
    """Members of a gzip file one after the other, never more than a chunk at a time. Raises TraceError."""
    member, given, data = zlib.decompressobj(wbits=31), 0, first
    try:
        while data or (data := next(chunks, b"")):
            if member.eof:
                if not data.startswith(GZIP[:len(data)]):
                    return  # padding after the last member, as gzip(1) ignores it
                member = zlib.decompressobj(wbits=31)
            out = member.decompress(data, CHUNK)
            data = member.unused_data if member.eof else member.unconsumed_tail
            given += len(out)
            yield out
        while not member.eof and (out := member.decompress(b"", CHUNK)):
            given += len(out)
            yield out
    except zlib.error:
        raise TraceError(file, None, f"the gzip is damaged after {given:,} unpacked bytes") from None
    if not member.eof:
        raise TraceError(file, None, f"the gzip is cut off: it ends after {given:,} unpacked bytes")


def limited(chunks: Iterator[bytes], file: str, most_bytes: int) -> Iterator[bytes]:
    """The same chunks as long as they are within the limit. Raises TraceError."""
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > most_bytes:
            raise TraceError(file, None, f"the file is too large; accepted: at most {most_bytes:,} bytes unpacked "
                                         "(read the first rows with a limit, or cut it)")
        yield chunk
