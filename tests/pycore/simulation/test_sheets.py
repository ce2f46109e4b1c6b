"""Requests and steps as CSV files: read back they are the run, and no spreadsheet computes with them."""

import csv
import io

import pytest

from pycore.simulation import sheets
from pycore.simulation.records import RequestRecord
from pycore.systems.sched_sim import Query, answer


@pytest.fixture(scope="module")
def runs():
    """Two policies on one short workload, the second on two servers."""
    found = answer(Query(workload="poisson rate=20 prompt=300 output=20 requests=30", against="fcfs", replicas=2))
    return [(run.label, run.result) for run in found.runs]


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_a_file_of_requests_reads_back_as_every_run(runs):
    expected = [(label, one) for label, result in runs for one in result.requests]
    found = rows(sheets.requests_text(runs))
    assert len(found) == len(expected) == 60
    for row, (label, one) in zip(found, expected, strict=True):
        assert (row["policy"], row["id"]) == (label, one.id) and row["dropped_ns"] == ""
        assert [float(row[name]) for name in ("arrival_ns", "finished_ns", "ttft_ns", "tpot_ns", "computed_tokens")] == [
            one.arrival_ns, one.finished_ns, one.ttft_ns, one.tpot_ns, one.computed_tokens]


def test_a_file_of_steps_numbers_them_by_server(runs):
    found = rows(sheets.steps_text(runs))
    assert len(found) == sum(len(server.steps) for _, result in runs for server in result.servers)
    last = None
    for row in found:
        key = row["policy"], row["server"]
        assert int(row["step"]) == (0 if last is None or last[0] != key else last[1] + 1)
        last = key, int(row["step"])
    assert sum(int(row["emitted"]) for row in found) == 2 * 30 * 20


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_no_cell_is_a_formula(runs, name):
    label, result = runs[0]
    changed = type(result)(**{field: getattr(result, field) for field in type(result).__dataclass_fields__} | {
        "requests": (RequestRecord(id=name, arrival_ns=0, prompt_tokens=1, output_tokens=1),)})
    row, = csv.DictReader(io.StringIO(sheets.requests_text([(label, changed)]), newline=""))
    assert row["id"] == f"'{name}"


def test_every_field_of_a_request_that_a_cell_can_hold_is_a_column():
    assert set(sheets.REQUEST) >= set(RequestRecord.__dataclass_fields__) - {"spans", "gaps"}
    assert len(set(sheets.REQUEST)) == len(sheets.REQUEST)
