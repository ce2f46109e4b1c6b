"""Read a request log: detect its layout, check every cell, sort it by arrival, spread coarse buckets, say what was done."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from os import PathLike, fspath

from pycore.errors import InputError
from pycore.simulation.traces.bench import benchmark
from pycore.simulation.traces.cells import identifiers, token_count, token_count_or_zero
from pycore.simulation.traces.faults import TraceError
from pycore.simulation.traces.layouts import Columns, locate, match, missing, plain
from pycore.simulation.traces.source import MOST_BYTES, Source, lines
from pycore.simulation.traces.spread import MODES, spread
from pycore.simulation.traces.tables import Table, table
from pycore.simulation.traces.trace import Trace

MOST_ROWS = 2_000_000


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
        columns = self.columns
        self.extras = {name: array("q") for _, name, _ in columns.extras}
        output = token_count_or_zero if columns.layout.zero_output_failed else token_count
        for line, values in self.table.rows:
            if len(self.prompts) >= self.most_rows:
                raise TraceError(self.file, f"more than {self.most_rows:,} rows", "accepted: at most that many (read the "
                                 "first ones with a limit)", line=line)
            produced = self.cell(columns.output, values, line, output)
            if produced:
                self.append(line, values, produced)
            else:
                self.failed += 1
            if limit and len(self.prompts) >= limit:
                break
        if not self.prompts:
            raise TraceError(self.file, None, "it holds a header but no request" if self.table.header else
                             "it holds no request that succeeded")

    def append(self, line: int, values: object, produced: int) -> None:
        """One request."""
        columns = self.columns
        prompt = self.cell(columns.prompt, values, line, token_count)
        if columns.arrival is not None:
            self.arrivals.append(self.cell(columns.arrival, values, line, columns.read_time))
        self.prompts.append(prompt)
        self.outputs.append(produced)
        self.lines.append(line)
        if columns.request_id is not None:
            self.ids.append(self.cell(columns.request_id, values, line, self.own_id))
        if columns.hashes is not None:
            self.hashes.append(self.cell(columns.hashes, values, line, lambda value: identifiers(value or "")))
        if columns.token_ids is not None:
            self.token_ids.append(self.cell(columns.token_ids, values, line, lambda value: exactly(value, prompt)))
        for index, name, read in columns.extras:
            empty = values[index] is None or values[index] == ""
            self.extras[name].append(-1 if empty else self.cell(index, values, line, read))

    def cell(self, index: int, values: object, line: int, read: Callable[[object], object]) -> object:
        """One cell, read; a fault gets its place."""
        try:
            return read(values[index])
        except ValueError as fault:
            value, header, unit = values[index], self.table.header, self.table.unit
            shown = "nothing" if value is None else value if isinstance(value, str) else repr(value)[:80]
            text = str(fault) if unit == "line" else f"{unit} {line:,} of the list; {fault}"
            raise TraceError(self.file, shown, text, line=line if unit == "line" else None,
                             column=self.table.names[index], column_number=index + 1 if header else None) from None

    def own_id(self, value: object) -> str:
        """A name that no other row has."""
        text = str(value).strip() if isinstance(value, str | int) else ""
        if not 1 <= len(text) <= 200:
            raise ValueError("accepted: a name of 1 to 200 characters")
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
