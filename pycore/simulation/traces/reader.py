"""Read a request log: detect its layout, check every cell, sort it by arrival, spread coarse buckets, say what was done."""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath

from pycore.errors import InputError
from pycore.simulation.traces.bench import benchmark
from pycore.simulation.traces.cells import identifiers, token_count, token_count_or_zero
from pycore.simulation.traces.chains import chained, first_unchained
from pycore.simulation.traces.faults import TraceError
from pycore.simulation.traces.layouts import Columns, locate, match, missing, plain
from pycore.simulation.traces.source import MOST_BYTES, Source, lines
from pycore.simulation.traces.spread import MODES, spread
from pycore.simulation.traces.tables import Table, table
from pycore.simulation.traces.trace import Trace

MOST_ROWS = 2_000_000
HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: JSON can spell it, no file of text can hold it."""


def read_trace(source: Source, *, name: str = "", limit: int = 0, times: bool = True, order: str = "sort",
               buckets: str = "auto", seed: int = 0, most_rows: int = MOST_ROWS, most_bytes: int = MOST_BYTES,
               count_tokens: Callable[[str], int] | None = None) -> Trace:
    """A trace from a file's path, an open binary file, its bytes or its text (gzipped or not).

    limit         only the first so many rows (0 = all); the rest of the file is not read
    times         False: lengths alone, columns of time are not needed and not read
    order         sort: rows out of order are sorted, stably, and the notes say how many; refuse: they are an error
    buckets       auto: Mooncake's 3 s buckets are spread at random with `seed`; even, seeded: any layout's; off
    count_tokens  text -> tokens, for files that hold text (ShareGPT)

    Raises TraceError (line and column) for everything that is wrong with the content, InputError for the options.
    """
    if order not in ("sort", "refuse"):
        raise InputError("order", order, "accepted: sort, refuse")
    if buckets not in MODES:
        raise InputError("buckets", buckets, "accepted: " + ", ".join(MODES))
    file = name or (fspath(source).rsplit("/", 1)[-1] if isinstance(source, PathLike) else "trace")
    found = table(lines(source, file, most_bytes), file)
    if isinstance(found, Table):
        columns = match(found.names, times=times)
        if columns is None:
            raise TraceError(file, ", ".join(found.names)[:200], missing(found.names), line=1 if found.header else None)
    else:
        layout, found = benchmark(found, file, count_tokens)
        columns = locate(layout, {plain(column): index for index, column in enumerate(found.names)},
                         times and bool(layout.arrival))
        if columns is None:
            raise TraceError(file, None, "it holds lengths but no start_times (older vLLM does not write them); accepted: "
                                         "read it for its lengths alone and choose an arrival process")
    rows = Rows(file=file, columns=columns, table=found, most_rows=most_rows)
    rows.read(limit)
    return finished(rows, order, buckets, seed)


@dataclass(slots=True, kw_only=True)
class Rows:
    """Columns being filled."""

    file: str
    columns: Columns
    table: Table
    most_rows: int
    arrivals: array = field(default_factory=lambda: array("q"))
    prompts: array = field(default_factory=lambda: array("q"))
    outputs: array = field(default_factory=lambda: array("q"))
    lines: array = field(default_factory=lambda: array("q"))
    ids: list[str] = field(default_factory=list)
    hashes: list[tuple[int, ...]] = field(default_factory=list)
    token_ids: list[tuple[int, ...]] = field(default_factory=list)
    extras: dict[str, array] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    failed: int = 0

    def read(self, limit: int) -> None:
        """Rows until `limit` (0: all). Raises TraceError at the first cell that is not accepted."""
        self.extras = {name: array("q") for _, name, _ in self.columns.extras}
        enough, prompts, append = limit or self.most_rows + 1, self.prompts, self.append
        for line, values in self.table.rows:
            if len(prompts) >= self.most_rows:
                raise TraceError(self.file, f"more than {self.most_rows:,} rows", "accepted: at most that many (read the "
                                 "first ones with a limit)", line=line)
            append(line, values)
            if len(prompts) >= enough:
                break
        if not prompts:
            raise TraceError(self.file, None, "it holds a header but no request" if self.table.header else
                             "it holds no request that succeeded")

    def append(self, line: int, values: Sequence[object]) -> None:
        """One request, or one more that failed. Raises TraceError."""
        columns, index = self.columns, self.columns.output
        try:
            output = token_count_or_zero(values[index]) if columns.layout.zero_output_failed else token_count(values[index])
            if not output:
                self.failed += 1
                return
            index = columns.prompt
            prompt = token_count(values[index])
            index = columns.arrival
            if index is not None:
                self.arrivals.append(columns.read_time(values[index]))
            self.prompts.append(prompt)
            self.outputs.append(output)
            self.lines.append(line)
            for index, add in self.more(prompt):
                add(values[index])
        except ValueError as fault:
            raise self.located(fault, line, index, values[index]) from None

    def more(self, prompt: int) -> Iterator[tuple[int, Callable[[object], None]]]:
        """(column, what takes its cell) of the columns that a layout may lack."""
        columns = self.columns
        if columns.request_id is not None:
            yield columns.request_id, lambda value: self.ids.append(self.own_id(value))
        if columns.hashes is not None:
            yield columns.hashes, lambda value: self.hashes.append(identifiers("" if value is None else value))
        if columns.token_ids is not None:
            yield columns.token_ids, lambda value: self.token_ids.append(exactly(value, prompt))
        for index, name, read in columns.extras:
            yield index, lambda value, name=name, read=read: self.extras[name].append(
                -1 if value is None or value == "" else read(value))

    def located(self, fault: ValueError, line: int, index: int, value: object) -> TraceError:
        """What was wrong with a cell, with its place."""
        unit = self.table.unit
        shown = "nothing" if value is None else value if isinstance(value, str) else repr(value)[:80]
        text = str(fault) if unit == "line" else f"{unit} {line:,} of the list; {fault}"
        return TraceError(self.file, shown, text, line=line if unit == "line" else None, column=self.table.names[index],
                          column_number=index + 1 if self.table.header else None)

    def own_id(self, value: object) -> str:
        """A name that no other row has."""
        text = str(value).strip() if isinstance(value, str | int) else ""
        if not 1 <= len(text) <= 200 or (not text.isascii() and HALF.search(text)):
            raise ValueError("accepted: a name of 1 to 200 characters, no half of a surrogate pair")
        if text in self.seen:
            raise ValueError("accepted: a name that no other row has")
        self.seen.add(text)
        return text


def exactly(value: object, count: int) -> tuple[int, ...]:
    """Token ids, as many as the prompt has tokens; none where the cell is empty."""
    ids = identifiers("" if value is None else value)
    if ids and len(ids) != count:
        raise ValueError(f"{len(ids):,} ids; accepted: as many as the prompt has tokens, {count:,}")
    return ids


def finished(rows: Rows, order: str, buckets: str, seed: int) -> Trace:
    """Sorted, shifted to 0, spread; with notes of it."""
    layout, notes = rows.columns.layout, [f"read as {rows.columns.layout.name}: {len(rows.prompts):,} requests"]
    if rows.failed:
        notes.append(f"{rows.failed:,} rows without output (requests that failed) left out")
    notes += whole_prefixes(rows)
    sequence = ordered(rows, order, notes)
    if sequence is not None:
        permute(rows, sequence)
    arrivals = rows.arrivals
    if arrivals:
        start = arrivals[0]
        if start:
            arrivals = array("q", (time - start for time in arrivals))
            notes.append("arrivals count from the first one")
        arrivals, note = spread(arrivals, buckets if layout.bucketed or buckets != "auto" else "off", seed)
        notes += [note] if note else []
    else:
        notes.append("lengths only, no arrival times")
    return Trace(
        name=rows.file, layout=layout.id, layout_name=layout.name, arrivals_ns=arrivals, prompt_tokens=rows.prompts,
        output_tokens=rows.outputs, lines=rows.lines, ids=tuple(rows.ids), hash_block_tokens=layout.hash_block_tokens,
        hash_ids=tuple(rows.hashes) if any(rows.hashes) else (),
        token_ids=tuple(rows.token_ids) if any(rows.token_ids) else (),
        extras=tuple(rows.extras.items()), notes=tuple(notes), skipped=rows.failed)


def whole_prefixes(rows: Rows) -> list[str]:
    """Let each block's identifier name all before it too, and say so where that changed any."""
    found = first_unchained(rows.hashes)
    if found is None:
        return []
    rows.hashes = chained(rows.hashes)
    return [f"block {found[1]} stands after different blocks ({rows.table.unit} {rows.lines[found[0]]:,}): identifiers are "
            "taken for contents, and prompts share the blocks before the first in which they differ"]


def ordered(rows: Rows, order: str, notes: list[str]) -> list[int] | None:
    """The stable order by arrival, None where the rows have it. Raises TraceError with `order` "refuse"."""
    times = rows.arrivals
    back = [index for index, (earlier, later) in enumerate(pairwise(times), 1) if later < earlier]
    if not back:
        return None
    line = rows.lines[back[0]]
    if order == "refuse":
        raise TraceError(rows.file, None, "this arrival lies before the one above; accepted: rows in order of arrival",
                         line=line, column=rows.table.names[rows.columns.arrival])
    notes.append(f"{len(back):,} arrivals lie before the one above (first in line {line:,}): sorted by arrival, "
                 "rows of equal time in the file's order")
    return sorted(range(len(times)), key=times.__getitem__)


def pairwise(times: array) -> Iterator[tuple[int, int]]:
    return zip(times, memoryview(times)[1:], strict=False)


def permute(rows: Rows, sequence: list[int]) -> None:
    """Put every column in that order."""
    for name in ("arrivals", "prompts", "outputs", "lines"):
        column = getattr(rows, name)
        setattr(rows, name, array("q", (column[index] for index in sequence)))
    for name in ("ids", "hashes", "token_ids"):
        column = getattr(rows, name)
        setattr(rows, name, [column[index] for index in sequence] if column else column)
    rows.extras = {name: array("q", (column[index] for index in sequence)) for name, column in rows.extras.items()}
