"""How long a reader of a stream sees nothing: the time between two tokens of one request, and where it was longest."""

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from pycore.ledger import Term, term
from pycore.simulation.records import Result


class Silence(NamedTuple):
    """From one token of a request to its next; `request` is None where several requests shared it."""

    start_ns: int
    end_ns: int
    request: str | None = None

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@term("Longest token gap", "s")
def longest_gap_s(earlier_token_ns: int, later_token_ns: int) -> float:
    """(later_token_ns − earlier_token_ns) ÷ 10⁹, the largest over all pairs of neighbouring tokens of a request"""
    return (later_token_ns - earlier_token_ns) / 1e9


def longest(result: Result) -> Silence | None:
    """The longest silence of a run, the earliest of equals; None where no request got a second token."""
    return max(silences(result), key=lambda one: (one.length_ns, -one.start_ns), default=None)


def longest_term(silence: Silence) -> Term:
    """A silence as an explained number."""
    return longest_gap_s(silence.start_ns, silence.end_ns)


def largest_by_time(result: Result, bins: int) -> list[tuple[int, int]]:
    """(time ns, length ns) of the longest silence that ended in each of `bins` equal parts of the run, where one did; the
    earliest of equals."""
    most: dict[int, Silence] = {}
    for one in silences(result):
        place = one.end_ns * bins // (result.makespan_ns + 1)
        held = most.get(place)
        if held is None or (one.length_ns, -one.start_ns) > (held.length_ns, -held.start_ns):
            most[place] = one
    return [(most[place].end_ns, most[place].length_ns) for place in sorted(most)]


def silences(result: Result) -> Iterator[Silence]:
    """Every silence of a run, in no order. Linear in spans and steps: what many requests share is told once, unnamed."""
    covered = [[0] * (len(server.steps) + 1) for server in result.servers]
    for request in result.requests:
        last = None
        for span in request.spans:
            if not span.emitted:
                continue
            steps = result.servers[span.server].steps
            if last is not None:
                yield Silence(last, steps[span.step].end_ns, request.id)
            last = steps[span.step + span.steps - 1].end_ns
            covered[span.server][span.step + 1] += 1
            covered[span.server][span.step + span.steps] -= 1
    for server, changes in zip(result.servers, covered, strict=True):
        for step, count in enumerate(accumulate(changes)):
            if count > 0 and step:
                yield Silence(server.steps[step - 1].end_ns, server.steps[step].end_ns)
