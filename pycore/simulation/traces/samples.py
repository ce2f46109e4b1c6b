"""The traces that come along: cuts of public logs in `data/llm-serving-traces/`, by name, read like any other file."""

import csv
import functools
import os
from dataclasses import replace

import pycore
from pycore.errors import UnknownName
from pycore.simulation.traces.reader import read_trace
from pycore.simulation.traces.trace import Trace

FOLDER = "llm-serving-traces"


def text(name: str) -> str:
    """A file of the dataset: inside the package in a wheel or an archive, beside it in a checkout. Raises OSError."""
    loader, folder = pycore.__spec__.loader, os.path.dirname(pycore.__file__)
    for root in (folder, os.path.dirname(folder)):
        try:
            return loader.get_data(os.path.join(root, "data", FOLDER, name)).decode("utf-8")
        except OSError:
            continue
    raise OSError(f"the dataset's file {name} is neither in nor beside the package")


@functools.cache
def sources() -> tuple[dict[str, str], ...]:
    """One row a sample: its name, what it is a cut of, licence, commit."""
    return tuple(csv.DictReader(text("sources.csv").splitlines()))


def names() -> tuple[str, ...]:
    """Names of the samples."""
    return tuple(row["trace"] for row in sources())


@functools.cache
def lines_by_trace() -> dict[str, list[str]]:
    """Lines of requests.csv by the name in their first cell, the header under ''."""
    header, *rows = text("requests.csv").splitlines()
    found: dict[str, list[str]] = {"": [header]}
    for row in rows:
        found.setdefault(row.partition(",")[0], []).append(row)
    return found


@functools.lru_cache(maxsize=16)
def sample(name: str, seed: int = 0) -> Trace:
    """A sample trace, coarse arrivals spread with `seed`. Raises UnknownName."""
    row = next((row for row in sources() if row["trace"] == name), None)
    if row is None:
        raise UnknownName("trace", name, "accepted: " + ", ".join(names()))
    grouped = lines_by_trace()
    trace = read_trace("\n".join(grouped[""] + grouped[name]) + "\n", name=name, seed=seed,
                       buckets="seeded" if row["buckets_s"] else "off")
    last = int(row["first"]) + len(trace) - 1
    found = (f"{row['title']}, rows {int(row['first']):,} to {last:,} of {int(row['rows_of_source']):,} "
             f"({row['repository']} {row['file']}, {row['licence']})")
    return replace(trace, notes=(found, *trace.notes[1:]), hash_block_tokens=int(row["hash_block_tokens"] or 0))
