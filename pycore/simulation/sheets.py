"""Requests and steps of a run as rows of a CSV file: the same columns wherever such a file is made.

Times are nanoseconds since the run began, those named after a latency how long it took (`tpot_ns` a fraction); an empty
cell is a thing that never happened.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from pycore.comma_separated import csv_text
from pycore.simulation.records import RequestRecord, Result, StepRecord

FIELDS = tuple(name for name in RequestRecord.__dataclass_fields__ if name not in ("spans", "gaps"))
LATENCIES = ("ttft_ns", "tpot_ns", "e2e_ns", "queueing_ns")
REQUEST = ("policy", *FIELDS, *LATENCIES)
STEP = ("policy", "server", "step", *StepRecord._fields)


def requests_text(runs: Iterable[tuple[str, Result]]) -> str:
    """A row a request in order of arrival, run after run. `runs`: what each one's policy is called, and the run."""
    of = attrgetter(*REQUEST[1:])
    return csv_text(REQUEST, ((policy, *of(request)) for policy, result in runs for request in result.requests))


def steps_text(runs: Iterable[tuple[str, Result]]) -> str:
    """A row a step, server after server, run after run."""
    return csv_text(STEP, (row for policy, result in runs for row in step_rows(policy, result)))


def step_rows(policy: str, result: Result) -> Iterator[tuple[Any, ...]]:
    """The steps of one run."""
    for server in result.servers:
        for number, step in enumerate(server.steps):
            yield (policy, server.name, number, *step)
