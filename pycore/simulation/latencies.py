"""The times that users see, taken from a run: series in seconds, in order of arrival (gaps between tokens: of time)."""

from collections.abc import Callable
from itertools import accumulate, chain

from pycore.simulation.records import RequestRecord, Result, column

SECOND = 1_000_000_000
LATENCIES: dict[str, tuple[str, Callable[[RequestRecord], float | None]]] = {
    "ttft": ("Time to first token", lambda request: request.ttft_ns),
    "tpot": ("Time per output token", lambda request: request.tpot_ns),
    "e2e": ("End to end", lambda request: request.e2e_ns),
    "queueing": ("Queueing", lambda request: request.queueing_ns),
}
"""Name, title, and ns of a request (None where it has none: dropped, unfinished, or an answer of a single token)."""


def series(result: Result, name: str) -> list[float]:
    """Seconds of every request that has this latency, in order of arrival."""
    measure = LATENCIES[name][1]
    return [value / SECOND for request in result.requests if (value := measure(request)) is not None]


def token_gaps(result: Result) -> list[tuple[float, int]]:
    """(seconds, how often) of the gaps between neighbouring tokens of one request, in order of the later token's time.

    Exact and cheap: inside a decode span the gap before a step's token is that step's end less the end of the step
    before it, the same for every sequence there, so spans are counted at their ends and summed up along the steps. Only
    the first token of each span has a gap of its own.
    """
    shared = [[0] * (len(server.steps) + 1) for server in result.servers]
    at_once = 0  # gaps of no length: further tokens of a step that emits several
    own: list[tuple[int, int]] = []  # (time of the later token, gap)
    for request in result.requests:
        before: int | None = None
        for span in request.spans:
            if not span.emitted:
                continue
            steps, last = result.servers[span.server].steps, span.step + span.steps - 1
            if before is not None:
                own.append((steps[span.step].end_ns, steps[span.step].end_ns - before))
            shared[span.server][span.step + 1] += 1
            shared[span.server][last + 1] -= 1
            at_once += span.emitted - span.steps
            before = steps[last].end_ns
    pairs = [(at, gap, 1) for at, gap in own]
    for server, changes in zip(result.servers, shared, strict=True):
        ends = list(column(server.steps, "end_ns"))
        pairs += [(end, end - before, count) for before, end, count in
                  zip(chain([0], ends), ends, accumulate(changes), strict=False) if count]
    pairs.sort()
    return ([(0.0, at_once)] if at_once else []) + [(gap / SECOND, count) for _, gap, count in pairs]
