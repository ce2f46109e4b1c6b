"""Which of two policies is faster on the same requests, and whether the difference is more than the luck of the trace.

Both served the same requests, so they are compared request by request: what the arrivals did to both cancels out, and a
difference shows with far fewer requests than two separate intervals would need. A request that one of them lost counts
as infinitely late there.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pycore.ledger import Term, term
from pycore.simulation.figures import SIMULATED
from pycore.simulation.latencies import LATENCIES, SECOND
from pycore.simulation.records import Result
from pycore.stats.describe import describe
from pycore.stats.estimates import Estimate, TooFew
from pycore.stats.percentiles import percentile
from pycore.units import significant

FEWEST_APART = 10
"""Requests that must be late in one run and not in the other before their balance says anything."""


@term("Difference over the same requests", "s", source=SIMULATED)
def difference_s(first_s, second_s):
    """first_s − second_s"""
    return first_s - second_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`difference`: first less second, seconds, with its interval (TooFew: no figure). `winner`: the policy that was
    faster in this run, '' for a tie or no figure; `certain`: its lead is beyond chance at 95 %; `reason` says what
    stands in the way of a figure or an interval."""

    first: str
    second: str
    difference: Estimate | TooFew
    winner: str
    certain: bool
    reason: str = ""

    def term(self, first: Term, second: Term) -> Term | None:
        """The difference as an explained number between the two figures that it is of, its interval as the range; None
        where it is no finite number."""
        if isinstance(self.difference, TooFew) or not math.isfinite(self.difference.value):
            return None
        return replace(difference_s(first, second), value=self.difference.value, low=self.difference.low,
                       high=self.difference.high, note=self.reason or self.difference.evidence)


def compare(first: Result, second: Result, name: str = "ttft", percent: float | None = None) -> Comparison:
    """Compares a latency of `latencies.LATENCIES`, its mean or a percentile, over requests that both runs hold.

    Requests without this latency in both runs (an answer of one token has no TPOT) are left out. Raises ValueError where
    the two runs do not hold the same requests.
    """
    return compare_each(first, second, name, (percent,))[0]


def compare_each(first: Result, second: Result, name: str, figures: Sequence[float | None]) -> tuple[Comparison, ...]:
    """`compare` for several figures of one latency (None: the mean), the requests paired once."""
    ours, theirs = paired(first, second, name)
    return tuple(judged(first.policy, second.policy, ours, theirs, percent) for percent in figures)


def judged(first: str, second: str, ours: Sequence[float], theirs: Sequence[float], percent: float | None) -> Comparison:
    """One figure of paired latencies, seconds."""
    if not ours:
        return decided(first, second, TooFew(n=0, needed=1))
    if math.inf in ours or math.inf in theirs:
        return losers(first, second, ours, theirs, percent)
    if percent is not None:
        return by_tails(first, second, ours, theirs, percent)
    return decided(first, second, describe([a - b for a, b in zip(ours, theirs, strict=True)], ()).mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The run that is ahead in one figure. `rivals`: every other run against it, in their order, differences above nought
    where it is ahead; `certain`: beyond chance against each of them."""

    place: int
    certain: bool
    rivals: tuple[Comparison, ...]

    @property
    def nearest(self) -> Comparison:
        """The rival that it is least ahead of."""
        return min(self.rivals, key=lambda one: one.difference.value if isinstance(one.difference, Estimate) else math.inf)


def leads(results: Sequence[Result], name: str, figures: Sequence[float | None],
          values: Sequence[Sequence[float | None]]) -> tuple[Lead | None, ...]:
    """Who leads in each figure of a latency (None: the mean) over runs of the same requests. `values`: of each figure, what
    every run gives, seconds (None: too few samples). None where they are written alike, or where the least has lost
    requests that the others served.
    """
    known: dict[tuple[int, int], tuple[Comparison, ...]] = {}

    def against(place: int, number: int) -> tuple[Comparison, ...]:
        for other in range(len(results)):
            if other != place and (other, place) not in known:
                known[other, place] = compare_each(results[other], results[place], name, figures)
        return tuple(known[other, place][number] for other in range(len(results)) if other != place)

    return tuple(lead(row, lambda place, number=number: against(place, number)) for number, row in enumerate(values))


def lead(values: Sequence[float | None], against: Callable[[int], tuple[Comparison, ...]]) -> Lead | None:
    """The run with the least value that no comparison contradicts."""
    known = sorted((value, place) for place, value in enumerate(values) if value is not None)
    if len({significant(value) for value, _ in known}) < 2:
        return None
    for _, place in known:
        rivals = against(place)
        if all(one.winner in ("", one.second) for one in rivals):
            return Lead(place=place, certain=all(one.certain for one in rivals), rivals=rivals)
    return None


def paired(first: Result, second: Result, name: str) -> tuple[list[float], list[float]]:
    """Seconds of each request in both runs, inf where it was lost, in order of arrival."""
    measure, others = LATENCIES[name][1], {request.id: request for request in second.requests}
    if others.keys() != {request.id for request in first.requests}:
        raise ValueError("two runs are compared over the same requests only")
    ours, theirs = [], []
    for one in first.requests:
        values = [measure(one), measure(others[one.id])]
        if values == [None, None] and one.finished and others[one.id].finished:
            continue
        a, b = (math.inf if value is None else value / SECOND for value in values)
        if a != math.inf or b != math.inf:
            ours.append(a)
            theirs.append(b)
    return ours, theirs


def losers(first: str, second: str, ours: Sequence[float], theirs: Sequence[float], percent: float | None) -> Comparison:
    """Where requests were lost: a mean is infinite, and so is a percentile once the lost reach it."""
    a, b = (math.inf if percent is None and math.inf in values else figure(values, percent) for values in (ours, theirs))
    if isinstance(a, TooFew) or isinstance(b, TooFew):
        return decided(first, second, a if isinstance(a, TooFew) else b)
    value = 0.0 if a == b else a - b
    lost = "a request that was lost counts as infinitely late"
    return decided(first, second, Estimate(value=value, n=len(ours), refused=lost))


def figure(values: Sequence[float], percent: float | None) -> float | TooFew:
    """The mean, or a percentile, of values in any order."""
    return math.fsum(values) / len(values) if percent is None else percentile(sorted(values), percent)


def by_tails(first: str, second: str, ours: Sequence[float], theirs: Sequence[float], percent: float) -> Comparison:
    """Compares a percentile by who is later than it: of requests beyond the percentile of both runs together, the share
    of the one less that of the other, request by request (McNemar 1947, Psychometrika 12(2), on dependent pairs).

    The difference in seconds has no interval of its own: two order statistics of the same requests may be one request
    apart, and their difference then does not settle as runs grow.
    """
    ordered = sorted([*ours, *theirs])
    border = percentile(ordered, percent)
    values = figure(ours, percent), figure(theirs, percent)
    for value in (*values, border):
        if isinstance(value, TooFew):
            return decided(first, second, value)
    late = [(a > border) - (b > border) for a, b in zip(ours, theirs, strict=True)]
    apart = sum(one != 0 for one in late)
    difference = Estimate(value=values[0] - values[1], n=len(ours), refused="percentiles are compared by who is later")
    if apart < FEWEST_APART:
        return decided(first, second, difference, reason=f"only {apart} requests are late in one run and not in the other")
    tail = describe(late, ()).mean
    beyond = tail.has_interval and (tail.high < 0 and difference.value < 0 or tail.low > 0 and difference.value > 0)
    share, other = (sum(value > border for value in side) / len(side) for side in (ours, theirs))
    return decided(first, second, difference, certain=beyond, reason=tail.refused or (
        f"later than {border:.4g} s: {share:.2%} of requests against {other:.2%}"))


def decided(first: str, second: str, difference: Estimate | TooFew, *, certain: bool | None = None,
            reason: str = "") -> Comparison:
    """Name the winner; certain, unless told, where the interval of the difference leaves out nought."""
    if isinstance(difference, TooFew):
        return Comparison(first=first, second=second, difference=difference, winner="", certain=False,
                          reason=difference.text)
    winner = "" if difference.value == 0 else first if difference.value < 0 else second
    if certain is None:
        certain = difference.has_interval and (difference.high < 0 or difference.low > 0)
    return Comparison(first=first, second=second, difference=difference, winner=winner,
                      certain=certain and bool(winner), reason=reason or difference.refused)
