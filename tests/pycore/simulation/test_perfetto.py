"""The trace that ui.perfetto.dev opens: its format, nesting slices, no negative length, counters, and no lost time."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_runs import engine, requests, simulated
from random_runs import drawn

from pycore.serving.policies.chunked import Chunked
from pycore.simulation.arrivals import OpenLoop
from pycore.simulation.link import Link
from pycore.simulation.perfetto import lanes, trace_events, trace_text
from pycore.simulation.run import Setup, run

# "Trace Event Format" (Google, 2016): what each phase that we write must and may carry.
REQUIRED = {"M": {"name", "ph", "pid", "tid", "args"}, "X": {"name", "ph", "cat", "pid", "tid", "ts", "dur", "args"},
            "C": {"name", "ph", "pid", "tid", "ts", "args"}}


def checked(events):
    """Raise AssertionError for an event that is not of the format."""
    for event in events:
        assert set(event) == REQUIRED[event["ph"]], event
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and isinstance(event["name"], str)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
        else:
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] == "C":
            assert event["args"] and all(isinstance(value, int) and value >= 0 for value in event["args"].values())
    return events


def nests(events):
    """In every lane each slice lies within the one that is open, or after it: in whole nanoseconds, as Perfetto reads."""
    by_lane = {}
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            by_lane.setdefault((event["pid"], event["tid"]), []).append((start, start + round(event["dur"] * 1000)))
    for slices in by_lane.values():
        open_ends = []
        for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends and end > open_ends[-1]:
                return False
            open_ends.append(end)
    return True


def loaded(result):
    document = json.loads(trace_text(result))
    assert set(document) == {"displayTimeUnit", "traceEvents"} and document["displayTimeUnit"] == "ms"
    return checked(document["traceEvents"])


@given(st.integers(0, 10**9))
@settings(max_examples=60)
def test_any_run_is_a_trace(seed):
    result = run(*drawn(seed))
    events = loaded(result)
    assert nests(events)
    assert events == list(trace_events(result))


def test_time_is_not_lost():
    """In nanoseconds: pieces of a request fill its slice, steps have their lengths, ends are exact."""
    result = simulated(120, rate=30.0)
    events = loaded(result)
    slices = [event for event in events if event["ph"] == "X"]
    for request in result.requests:
        (own,) = [event for event in slices if event["cat"] == "request" and event["name"] == request.id]
        start, end = round(own["ts"] * 1000), round((own["ts"] + own["dur"]) * 1000)
        assert (start, end) == (request.arrival_ns, request.finished_ns)
        inside = [event for event in slices if event["pid"] == own["pid"] and event["tid"] == own["tid"] and event is not own
                  and start <= round(event["ts"] * 1000) and round((event["ts"] + event["dur"]) * 1000) <= end
                  and event["cat"] != "request"]
        assert sum(round(event["dur"] * 1000) for event in inside) == end - start
    steps = [event for event in slices if event["cat"] == "step"]
    assert [round(event["dur"] * 1000) for event in steps] == [step.length_ns for step in result.servers[0].steps]


def test_counters_of_the_pool_and_the_queue():
    result = simulated(120, rate=300.0)
    events = loaded(result)
    pool = [event["args"] for event in events if event["ph"] == "C" and event["name"] == "KV blocks"]
    queue = [event["args"] for event in events if event["ph"] == "C" and event["name"] == "requests"]
    assert len(pool) == len(result.servers[0].steps) and all(sum(args.values()) == result.servers[0].blocks for args in pool)
    assert max(args["waiting"] for args in queue) == max(step.waiting for step in result.servers[0].steps) > 10
    assert queue[-1] == {"running": 0, "waiting": 0}


def test_servers_and_the_link_are_processes_of_their_own():
    one = engine(Chunked(), block_bytes=1_000_000)
    events = loaded(run(Setup(engines=(one, one), prefill=1, link=Link(bytes_per_s=1e9)), OpenLoop(requests(20, 50.0, 3))))
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {f"{name} (disaggregated)" for name in ("requests", "prefill 1", "decode 1", "KV on the link")}
    assert {event["name"] for event in events if event["ph"] == "X" and event["cat"] in ("link", "wait")} >= {"sending", "queued"}


def test_hostile_names_stay_text():
    asked = [request for request in requests(1, 1.0, 1)]
    object.__setattr__(asked[0], "id", '"},{"ph":"X</script>\u2028')
    text = trace_text(run(Setup(engines=(engine(Chunked()),)), OpenLoop(asked)))
    assert json.loads(text)["traceEvents"] and text.isascii()


def test_a_refused_request_has_its_place():
    result = simulated(40, blocks=30)
    dropped = [request for request in result.requests if request.dropped]
    assert dropped
    events = loaded(result)
    assert sum(bool(event["args"].get("dropped")) for event in events) == len(dropped)


@pytest.mark.parametrize("intervals, expected", [
    ([(0, 5), (1, 2), (2, 9), (5, 6)], [0, 1, 1, 0]), ([(0, 1), (0, 1), (0, 1)], [0, 1, 2]), ([], []), ([(3, 3), (3, 4)], [0, 0]),
])
def test_lanes_are_used_again(intervals, expected):
    assert lanes(intervals) == expected


def test_lanes_are_as_many_as_requests_at_once():
    result = simulated(200, rate=40.0)
    moments = sorted([(request.arrival_ns, 1) for request in result.requests] + [(request.finished_ns, -1) for request in result.requests])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    used = {event["tid"] for event in loaded(result) if event["ph"] == "X" and event["cat"] == "request"}
    assert len(used) == most
