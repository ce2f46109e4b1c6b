"""A trace as a table: CSV, JSON lines or one JSON document, told apart by the content; rows with their line numbers."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pycore.nesting import deeper
from pycore.simulation.traces.faults import TraceError
from pycore.simulation.traces.layouts import optional, plain
from pycore.simulation.traces.source import Line

DELIMITERS = (",", ";", "\t")
ACCEPTED = "accepted: CSV with a header, JSON lines (one object a request) or one JSON document"

DEEPEST = 32
"""Nesting of a JSON document. No trace needs more, and json in Pyodide brings the whole runtime down at some thousands."""

Row = tuple[int, Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`names` of the columns; `rows` yields (line, values in that order), a missing JSON field as None.

    `header` is True for CSV, whose faults also tell a column by number. `unit`: what a row's number counts.
    """

    names: tuple[str, ...]
    rows: Iterator[Row]
    header: bool
    unit: str = "line"


def table(lines: Iterator[Line], file: str) -> Table | dict[str, Any] | list[Any]:
    """The table in these lines; a JSON document that is no table of flat objects is returned as it is.

    Raises TraceError for what is none of the accepted formats.
    """
    first = next(lines)
    text = first.text.lstrip()
    if text.startswith("{"):
        whole = parsed(first, file, strict=False)
        if isinstance(whole, dict) and (second := next(lines, None)) is not None:
            return json_lines(whole, first, chain((second,), lines), file)
        if isinstance(whole, dict):
            return whole if any(isinstance(value, list) for value in whole.values()) and not flat(whole) else (
                json_lines(whole, first, iter(()), file))
        return document(chain((first,), lines), file)
    if text.startswith("["):
        found = document(chain((first,), lines), file)
        if isinstance(found, list) and found and isinstance(found[0], dict) and flat(found[0]):
            return json_items(found, file)
        return found
    return csv_table(first, lines, file)


def flat(item: dict[str, Any]) -> bool:
    """Whether an object is one request: its values are scalars or lists of whole numbers."""
    scalars = sum(not isinstance(value, list | dict) for value in item.values())
    return scalars >= 2 and not any(key in item for key in ("input_lens", "conversations"))


def csv_table(first: Line, lines: Iterator[Line], file: str) -> Table:
    """CSV with a header; the delimiter is the one that cuts the header into most columns."""
    delimiter = max(DELIMITERS, key=first.text.count)
    names = next(cells(iter((first,)), delimiter, file), (0, ()))[1]
    names = tuple(name.strip() for name in names)
    if all(looks_numeric(name) for name in names):
        raise TraceError(file, first.text, f"the first line is no header; {ACCEPTED}", line=first.number)
    plainly = [plain(name) for name in names]
    twice = next((name for at, name in enumerate(names) if name and plainly[at] in plainly[:at]), None)
    if twice is not None:
        raise TraceError(file, twice, "this column stands twice in the header", line=first.number)
    return Table(names=names, rows=checked(cells(lines, delimiter, file), names, file), header=True)


def cells(lines: Iterator[Line], delimiter: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of CSV; a quoted cell may run over line ends. The number is that of the row's first line."""
    number = 0

    def texts() -> Iterator[str]:
        nonlocal number
        for line in lines:
            number = line.number
            starts.append(line.number)
            yield line.text + "\n"

    starts: list[int] = []
    reader = csv.reader(texts(), delimiter=delimiter)
    while True:
        starts.clear()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            raise TraceError(file, None, "this is no CSV: a carriage return within a line, or a cell of more than "
                                         f"{csv.field_size_limit():,} characters (a quote left open?)",
                             line=starts[0] if starts else number) from None
        yield starts[0], row


def checked(rows: Iterator[tuple[int, list[str]]], names: Sequence[str], file: str) -> Iterator[Row]:
    """The same rows, each as wide as the header (empty cells more are let pass)."""
    width = len(names)
    for line, row in rows:
        if len(row) != width and (len(row) < width or any(cell.strip() for cell in row[width:])):
            raise TraceError(file, f"{len(row)} cells", f"the header has {width}: {', '.join(names)[:200]}", line=line,
                             column_number=min(len(row), width) + 1)
        yield line, row


def looks_numeric(text: str) -> bool:
    """Whether a cell is a number, so that its line can hardly be a header."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def json_lines(whole: dict[str, Any], first: Line, lines: Iterator[Line], file: str) -> Table:
    """One object a line. The first names the columns."""
    keys, known = tuple(whole), whole.keys()

    def rows() -> Iterator[Row]:
        yield first.number, [whole[key] for key in keys]
        for line in lines:
            item = parsed(line, file)
            if not isinstance(item, dict):
                raise TraceError(file, line.text, "accepted: one JSON object a line", line=line.number)
            if not item.keys() <= known:
                unread(item, keys, file, f"line {line.number:,}")
            yield line.number, [item.get(key) for key in keys]

    return Table(names=keys, rows=rows(), header=False)


def json_items(items: list[Any], file: str) -> Table:
    """A list of objects, counted from 1. The first names the columns."""
    keys, known = tuple(items[0]), items[0].keys()

    def rows() -> Iterator[Row]:
        for number, item in enumerate(items, 1):
            if not isinstance(item, dict):
                raise TraceError(file, repr(item)[:80], f"item {number} of the list; accepted: an object a request")
            if not item.keys() <= known:
                unread(item, keys, file, f"item {number:,} of the list")
            yield number, [item.get(key) for key in keys]

    return Table(names=keys, rows=rows(), header=False, unit="item")


def unread(item: dict[str, Any], keys: Sequence[str], file: str, where: str) -> None:
    """Raise TraceError where a later row brings a column that would count, had the first one named it."""
    have, counts = {plain(key) for key in keys}, optional()
    late = next((key for key in item if plain(key) in counts and plain(key) not in have), None)
    if late is not None:
        raise TraceError(file, late, f"{where} has it and the first one lacks it; accepted: the first row names every "
                                     "column (null where it has nothing)")


def not_a_number(name: str) -> None:
    """What json calls for NaN and Infinity, which are no JSON."""
    raise ValueError(name)


def parsed(line: Line, file: str, *, strict: bool = True) -> Any:
    """One line of JSON. Raises TraceError with line and column; with `strict` False None where it is not complete."""
    return loaded(line.text, file, (line.number,), strict)


def document(lines: Iterator[Line], file: str) -> Any:
    """All lines as one JSON document. Raises TraceError with line and column."""
    kept = list(lines)
    return loaded("\n".join(line.text for line in kept), file, tuple(line.number for line in kept), True)


def loaded(text: str, file: str, numbers: Sequence[int], strict: bool) -> Any:
    """JSON whose lines have these numbers in the file, or a fault with its place.

    The words are ours: json's own, and where it finds a comma too many, differ between versions of Python.
    """
    if deeper(text, DEEPEST):
        raise TraceError(file, None, f"this JSON is nested too deep; accepted: at most {DEEPEST} levels", line=numbers[0])
    try:
        return json.loads(text, parse_constant=not_a_number)
    except json.JSONDecodeError as fault:
        if not strict:
            return None
        position, before = fault.pos, text[:fault.pos].rstrip()
        if text[position:position + 1] in ("}", "]") and before.endswith(","):
            position = len(before) - 1
        number, start = text.count("\n", 0, position), text.rfind("\n", 0, position) + 1
        rest = text[position:position + 20].split("\n")[0]
        raise TraceError(file, rest or None, "this is no JSON from here on" if rest else "this JSON is cut off here",
                         line=numbers[min(number, len(numbers) - 1)], column_number=position - start + 1) from None
    except ValueError:
        raise TraceError(file, None, "this JSON holds NaN, Infinity or a number of thousands of digits; accepted: "
                                     "numbers", line=numbers[0]) from None
