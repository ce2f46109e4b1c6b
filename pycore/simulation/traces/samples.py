"""The traces that come along: cuts of public logs in `data/llm-serving-traces/`, by name, read like any other file."""

import functools
from dataclasses import replace

from pycore.errors import UnknownName
from pycore.facts import table
from pycore.simulation.traces.reader import read_trace
from pycore.simulation.traces.trace import Trace

DATASET = "llm-serving-traces"


@functools.cache
def sources() -> tuple[dict[str, str], ...]:
    """One row a sample: its name, what it is a cut of, commit, licence, statistics of the whole."""
    return tuple(table("sources", DATASET))


def names() -> tuple[str, ...]:
    """Names of the samples."""
    return tuple(row["trace"] for row in sources())


@functools.cache
def requests_csv() -> dict[str, str]:
    """The requests of each sample as a file of its own (layout "plain")."""
    lines: dict[str, list[str]] = {}
    for row in table("requests", DATASET):
        lines.setdefault(row["trace"], [",".join(row)]).append(",".join(row.values()))  # no cell there holds a comma
    return {name: "\n".join(found) + "\n" for name, found in lines.items()}


@functools.lru_cache(maxsize=16)
def sample(name: str, seed: int = 0) -> Trace:
    """A sample trace, coarse arrivals spread with `seed`. Raises UnknownName."""
    row = next((row for row in sources() if row["trace"] == name), None)
    if row is None:
        raise UnknownName("trace", name, "accepted: " + ", ".join(names()))
    trace = read_trace(requests_csv()[name], name=name, seed=seed, buckets="seeded" if row["buckets_s"] else "off")
    last = int(row["first"]) + len(trace) - 1
    found = (f"{row['title']}, rows {int(row['first']):,} to {last:,} of {int(row['rows_of_source']):,} "
             f"({row['repository']} {row['file']}, {row['licence']})")
    return replace(trace, notes=(found, *trace.notes[1:]), hash_block_tokens=int(row["hash_block_tokens"] or 0))
