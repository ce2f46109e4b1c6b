"""A run as a Chrome trace, which ui.perfetto.dev and chrome://tracing open.

One process a server: its steps as slices, its KV pool and its queue as counters. One process for requests: each from
arrival to end, and within it what it did and why it stood still; a lane is used again once its request has left, so
that there are as many lanes as requests in the system at once. One process for KV on the link, where there was any.

Times are microseconds with three decimals, so nanoseconds are kept. In every lane slices nest and none has a negative
length. Format: "Trace Event Format" (Google, 2016), JSON object form: complete (X), counter (C), metadata (M) events.
"""

import heapq
import json
from collections.abc import Iterable, Iterator

from pycore.simulation.records import RequestRecord, Result, Server, StepRecord, Transfer, span_bounds

REQUESTS, LINK, FIRST_SERVER = 1, 2, 10
STEPS_LANE = 0


def microseconds(nanoseconds: int) -> float:
    """Nanoseconds as microseconds; three decimals are enough and exact as text."""
    return nanoseconds / 1000


def slice_event(name: str, process: int, lane: int, start_ns: int, end_ns: int, kind: str, details: dict) -> dict:
    """One complete event."""
    return {"name": name, "ph": "X", "cat": kind, "pid": process, "tid": lane, "ts": microseconds(start_ns),
            "dur": microseconds(end_ns - start_ns), "args": details}


def named(kind: str, process: int, name: str, lane: int = 0) -> dict:
    """The name of a process or a lane."""
    return {"name": kind, "ph": "M", "pid": process, "tid": lane, "args": {"name": name}}


def counter(name: str, process: int, time_ns: int, values: dict[str, int]) -> dict:
    """One point of a counter track."""
    return {"name": name, "ph": "C", "pid": process, "tid": STEPS_LANE, "ts": microseconds(time_ns), "args": values}


def trace_events(result: Result) -> Iterator[dict]:
    """Every event of a run: names first, then servers, requests and transfers."""
    yield named("process_name", REQUESTS, f"requests ({result.policy})")
    for number, server in enumerate(result.servers):
        yield from server_events(server, FIRST_SERVER + number, result.policy)
    yield from request_events(result)
    if result.transfers:
        yield named("process_name", LINK, f"KV on the link ({result.policy})")
        yield from transfer_events(result.transfers)


def server_events(server: Server, process: int, policy: str) -> Iterator[dict]:
    """A server's steps, and its counters: as each step begins, and once at the end. Its name carries the policy: several
    policies may stand in one trace."""
    yield named("process_name", process, f"{server.name} ({policy})")
    yield named("thread_name", process, "steps", STEPS_LANE)
    for number, step in enumerate(server.steps):
        yield slice_event(step_name(step), process, STEPS_LANE, step.start_ns, step.end_ns, "step", {
            "step": number, "prefill_tokens": step.prefill_tokens, "prefill_sequences": step.prefill_sequences,
            "decode_sequences": step.decode_sequences, "emitted": step.emitted, "preempted": step.preempted,
            "evicted": step.evicted})
        yield counter("KV blocks", process, step.start_ns, {
            "used": step.blocks_used, "cached": step.blocks_cached, "free": step.blocks_free})
        yield counter("requests", process, step.start_ns, {"running": step.running, "waiting": step.waiting})
    if server.steps:
        yield counter("requests", process, server.steps[-1].end_ns, {"running": 0, "waiting": 0})


def step_name(step: StepRecord) -> str:
    """'prefill 512 + decode 31'"""
    parts = [f"prefill {step.prefill_tokens}"] * bool(step.prefill_tokens)
    parts += [f"decode {step.decode_sequences}"] * bool(step.decode_sequences)
    return " + ".join(parts) or "step"


def lanes(intervals: Iterable[tuple[int, int]]) -> list[int]:
    """The lowest free lane of each interval, given in order of their starts; a lane is free from its end on."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    found = []
    for start, end in intervals:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        found.append(lane)
    return found


def end_of(result: Result, request: RequestRecord) -> int:
    """When a request left the system, or the run ended with it still inside."""
    for left in (request.finished_ns, request.dropped_ns):
        if left is not None:
            return left
    return max(request.arrival_ns, result.makespan_ns)


def request_events(result: Result) -> Iterator[dict]:
    """Each request's slice, and within it its spans and gaps."""
    order = sorted(result.requests, key=lambda request: request.arrival_ns)
    places = lanes((request.arrival_ns, end_of(result, request)) for request in order)
    for lane in range(max(places, default=-1) + 1):
        yield named("thread_name", REQUESTS, f"lane {lane + 1}", lane)
    for request, lane in zip(order, places, strict=True):
        yield slice_event(request.id, REQUESTS, lane, request.arrival_ns, end_of(result, request), "request", {
            "prompt_tokens": request.prompt_tokens, "output_tokens": request.output_tokens,
            "generated_tokens": request.generated_tokens, "cached_tokens": request.cached_tokens,
            "preemptions": request.preemptions, "dropped": request.dropped or ""})
        yield from pieces(result, request, lane)


def pieces(result: Result, request: RequestRecord, lane: int) -> Iterator[dict]:
    """What a request did and why it stood still."""
    for span in request.spans:
        start, end = span_bounds(result, span)
        yield slice_event(span.kind, REQUESTS, lane, start, end, span.kind, {
            "server": result.servers[span.server].name, "steps": span.steps, "tokens": span.tokens,
            "emitted": span.emitted})
    for gap in request.gaps:
        yield slice_event(f"waits: {gap.reason}", REQUESTS, lane, gap.start_ns, gap.end_ns, "wait", {
            "reason": gap.reason, "behind": gap.behind or ""})


def transfer_events(transfers: tuple[Transfer, ...]) -> Iterator[dict]:
    """KV on the link, queueing apart from sending; transfers that overlap lie in lanes of their own."""
    order = sorted(transfers, key=lambda transfer: transfer.asked_ns)
    places = lanes((transfer.asked_ns, transfer.end_ns) for transfer in order)
    for transfer, lane in zip(order, places, strict=True):
        details = {"from": transfer.source, "to": transfer.target, "bytes": transfer.size_bytes}
        yield slice_event(f"KV of {transfer.request}", LINK, lane, transfer.asked_ns, transfer.end_ns, "link", details)
        if transfer.start_ns > transfer.asked_ns:
            yield slice_event("queued", LINK, lane, transfer.asked_ns, transfer.start_ns, "wait", {})
        yield slice_event("sending", LINK, lane, transfer.start_ns, transfer.end_ns, "link", {})


def trace_text(result: Result) -> str:
    """The whole trace as JSON text, one event a line."""
    lines = ",\n".join(json.dumps(event, ensure_ascii=True, separators=(",", ":")) for event in trace_events(result))
    return f'{{"displayTimeUnit":"ms","traceEvents":[\n{lines}\n]}}\n'
