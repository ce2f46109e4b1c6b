"""Why did request 17 wait? Every idle gap of a request, attributed, with what would have removed it.

    explained = why(result, "r17")
    explained.causes[0]        # the largest: reason, behind whom, seconds, remedy
    under([("fcfs", result), ("chunked", other)], "r17", explained.causes[0])

Reasons come from the scheduler itself (what it held back at each step, and why), not from a guess after the fact.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from pycore.errors import UnknownName
from pycore.ledger import Term, term
from pycore.simulation.figures import SIMULATED, share_of
from pycore.simulation.latencies import SECOND
from pycore.simulation.records import DECODE, Gap, RequestRecord, Result, span_bounds
from pycore.simulation.remedies import Remedy, remedy

FIRST, BETWEEN = "before its first token", "between its tokens"


@term("Time spent", "s", source=SIMULATED)
def spent(nanoseconds):
    """nanoseconds / 1000000000"""
    return nanoseconds / SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """All gaps of one request for one reason behind one other, before its first token or between tokens."""

    reason: str
    behind: str | None
    phase: str
    gaps: tuple[Gap, ...]
    seconds: Term
    share: Term  # of its time in the system
    remedy: Remedy

    @property
    def text(self) -> str:
        """'12.4 s behind prefill of r3, before its first token'."""
        whom = f" of {self.behind}" if self.behind else ""
        return f"{self.seconds.text} {self.reason}{whom}, {self.phase}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One request's stay: `working` + `idle` = `stay`. `beside_prompts`: of its work, time in decode steps that also
    carried prompts of others: no gap, but the step took longer for it."""

    request: RequestRecord
    stay: Term
    working: Term
    idle: Term
    beside_prompts: Term
    causes: tuple[Cause, ...]  # longest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What one reason cost over a whole run."""

    reason: str
    phase: str
    seconds: Term
    share: Term  # of all idle time
    requests: int


def find(result: Result, request_id: str) -> RequestRecord:
    """The request of that id. Raises UnknownName."""
    for request in result.requests:
        if request.id == request_id:
            return request
    close = difflib.get_close_matches(request_id[:100], [request.id for request in result.requests], 3)
    raise UnknownName("request", request_id, "the id of a request of this run", close)


def why(result: Result, request_id: str) -> Explanation:
    """The stay of one request, explained. Raises UnknownName for an id that the run does not hold."""
    request = find(result, request_id)
    records = {other.id: other for other in result.requests}
    worked = sum(end - start for start, end in (span_bounds(result, span) for span in request.spans))
    idle = sum(gap.length_ns for gap in request.gaps)
    stay = spent(worked + idle).renamed("Time in the system")
    return Explanation(
        request=request, stay=stay, working=spent(worked).renamed("At work"), idle=spent(idle).renamed("Idle"),
        beside_prompts=spent(beside_prompts(result, request)).renamed("In steps shared with prompts"),
        causes=tuple(cause(result.policy, request, records, key, gaps, stay)
                     for key, gaps in sorted(grouped(request).items(), key=longest_first)))


def grouped(request: RequestRecord) -> dict[tuple[str, str, str | None], list[Gap]]:
    """Gaps by (phase, reason, behind), in order of their first one."""
    found: dict[tuple[str, str, str | None], list[Gap]] = {}
    for gap in request.gaps:
        found.setdefault((phase(request, gap), gap.reason, gap.behind), []).append(gap)
    return found


def phase(request: RequestRecord, gap: Gap) -> str:
    """Whether a gap came before the first token or after."""
    return FIRST if request.first_token_ns is None or gap.start_ns < request.first_token_ns else BETWEEN


def longest_first(item: tuple[tuple, list[Gap]]) -> tuple[int, int]:
    """Sorting: by length, then by time."""
    return -sum(gap.length_ns for gap in item[1]), item[1][0].start_ns


def cause(policy: str, request: RequestRecord, records: dict[str, RequestRecord], key: tuple[str, str, str | None],
          gaps: list[Gap], stay: Term) -> Cause:
    """One reason with its cost and its remedy."""
    when, reason, behind = key
    seconds = spent(sum(gap.length_ns for gap in gaps)).renamed(f"Idle: {reason}")
    return Cause(reason=reason, behind=behind, phase=when, gaps=tuple(gaps), seconds=seconds,
                 share=share_of(seconds, stay).renamed("Of its time in the system"),
                 remedy=remedy(reason, policy=policy.replace("_", "-"), decoding=when == BETWEEN, request=request,
                               blocker=records.get(behind) if behind else None))


def beside_prompts(result: Result, request: RequestRecord) -> int:
    """ns of its decode steps that carried prompt tokens."""
    return sum(step.length_ns for span in request.spans if span.kind == DECODE
               for step in result.servers[span.server].steps[span.step:span.step + span.steps] if step.prefill_tokens)


def totals(result: Result) -> tuple[Total, ...]:
    """Idle time of all requests by phase and reason, largest first: where a run loses its time."""
    lengths: dict[tuple[str, str], int] = {}
    touched: dict[tuple[str, str], int] = {}
    for request in result.requests:
        keys = set()
        for gap in request.gaps:
            key = (phase(request, gap), gap.reason)
            lengths[key] = lengths.get(key, 0) + gap.length_ns
            keys.add(key)
        for key in keys:
            touched[key] = touched.get(key, 0) + 1
    idle = spent(sum(lengths.values())).renamed("Idle, all requests")
    return tuple(Total(reason=reason, phase=when, requests=touched[when, reason],
                       seconds=(lost := spent(length).renamed(f"Idle: {reason}")),
                       share=share_of(lost, idle).renamed("Of all idle time"))
                 for (when, reason), length in sorted(lengths.items(), key=lambda item: (-item[1], item[0])))


def under(results: Iterable[tuple[str, Result]], request_id: str, gap: Cause) -> tuple[tuple[str, Term], ...]:
    """Idle seconds of the same request for the same reason and phase under each of several runs of one trace, least
    first: the policy that really removed it, where one of them did."""
    found = []
    for name, result in results:
        request = find(result, request_id)
        lost = sum(other.length_ns for other in request.gaps
                   if other.reason == gap.reason and phase(request, other) == gap.phase)
        found.append((name, spent(lost).renamed(f"Idle: {gap.reason}, {name}")))
    return tuple(sorted(found, key=lambda pair: pair[1].value))
