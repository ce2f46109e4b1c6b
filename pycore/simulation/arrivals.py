"""When requests come: arrival processes as streams of integer nanoseconds, and traffic with or without feedback.

A process is `f(rate, ..., rng)` and yields arrival times that never decrease, for ever (`replay` ends with its file).
Randomness is the caller's `random.Random`; only `rng.random()` is drawn from it, once a random number, so two processes
given equal generators see the same luck.

Times are whole microseconds (in nanoseconds). CPython and Pyodide may differ in the last bit of a logarithm or a power;
rounding each gap to a microsecond before it is added hides that: a gap of a second would have to lie within
1e-10 microseconds of a border between two of them. Hence no rate above 10,000 a second, where rounding the gap
would begin to show in the mean.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import NormalDist
from typing import Protocol

from pycore.errors import InputError
from pycore.serving.request import Request

MICROSECOND, SECOND = 1_000, 1_000_000_000  # in nanoseconds
LOWEST_RATE, HIGHEST_RATE = 1e-6, 1e4
HIGHEST_CV = 100.0
LONGEST_S = 1e7  # four months: mean length of a phase, think time
_NORMAL = NormalDist()


def number(field: str, value: float, low: float, high: float, unit: str = "") -> float:
    """`value`, finite and within `low` to `high`. Raises InputError."""
    if not (isinstance(value, int | float) and low <= value <= high):
        raise InputError(field, value, f"accepted: a number from {low:g} to {high:g}" + (f" {unit}" if unit else ""))
    return value


def checked_rate(rate: float) -> float:
    """Requests a second. Raises InputError for zero, negative, infinite and NaN."""
    return number("rate", rate, LOWEST_RATE, HIGHEST_RATE, "requests/s")


def unit_exponential(rng: Random) -> float:
    """A draw of mean 1: -ln(1 - u), finite since u < 1."""
    return -math.log(1.0 - rng.random())


def unit_gamma(shape: float, rng: Random) -> float:
    """A draw of mean `shape` and variance `shape`: Marsaglia and Tsang, ACM TOMS 26(3), 2000; below shape 1 by their
    boost, gamma(shape + 1) x u^(1 / shape)."""
    if shape < 1.0:
        return unit_gamma(shape + 1.0, rng) * (1.0 - rng.random()) ** (1.0 / shape)
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = standard_normal(rng)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(1.0 - rng.random()) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


def standard_normal(rng: Random) -> float:
    """A draw of mean 0 and variance 1, by inversion: one uniform number each."""
    return _NORMAL.inv_cdf(rng.random() or 2.0**-54)


def microseconds(seconds: float) -> int:
    """Seconds as nanoseconds, rounded to the microsecond."""
    return round(seconds * 1e6) * MICROSECOND


def poisson(rate: float, rng: Random) -> Iterator[int]:
    """Independent arrivals, `rate` a second: gaps are exponential."""
    rate = checked_rate(rate)
    return _renewal(lambda: unit_exponential(rng) / rate)


def gamma(rate: float, cv: float, rng: Random) -> Iterator[int]:
    """Gaps are gamma-distributed with mean 1/`rate` and coefficient of variation `cv`: 1 is Poisson, above it bursts.

    The shape of the distribution (what vLLM's benchmark calls burstiness) is 1/cv^2.
    """
    rate, shape = checked_rate(rate), 1.0 / number("cv", cv, 0.01, HIGHEST_CV) ** 2
    return _renewal(lambda: unit_gamma(shape, rng) / shape / rate)


def _renewal(gap_s: Callable[[], float]) -> Iterator[int]:
    """Arrivals whose gaps are drawn independently; the first comes one gap after time 0."""
    now = 0
    while True:
        now += microseconds(gap_s())
        yield now


def deterministic(rate: float) -> Iterator[int]:
    """One arrival every 1/`rate` seconds, the first at 0; the n-th is rounded by itself, so no error adds up."""
    rate = checked_rate(rate)
    return (round(index * 1e6 / rate) * MICROSECOND for index in _count())


def _count() -> Iterator[int]:
    index = 0
    while True:
        yield index
        index += 1


def on_off(rate: float, on_s: float, off_s: float, rng: Random) -> Iterator[int]:
    """Poisson arrivals while ON, none while OFF; `rate` is the mean over both, so the ON rate is rate (on + off) / on.

    Phases last exponential times of mean `on_s` and `off_s` seconds; time 0 is ON. This is the interrupted Poisson
    process; its index of dispersion tends to 1 + 2 rate_on / on / (1/on + 1/off)^2 (Heffes and Lucantoni, IEEE JSAC
    4(6), 1986, with one rate zero).
    """
    on_s = number("on", on_s, 1e-3, LONGEST_S, "s")
    off_s = number("off", off_s, 1e-3, LONGEST_S, "s")
    peak = checked_rate(checked_rate(rate) * (on_s + off_s) / on_s)
    return _phases(peak, on_s, off_s, rng)


def _phases(peak: float, on_s: float, off_s: float, rng: Random) -> Iterator[int]:
    start = 0
    while True:
        end = start + microseconds(unit_exponential(rng) * on_s)
        now = start + microseconds(unit_exponential(rng) / peak)
        while now < end:
            yield now
            now += microseconds(unit_exponential(rng) / peak)
        start = end + microseconds(unit_exponential(rng) * off_s)


def batch() -> Iterator[int]:
    """Everything at time 0: offline work."""
    return (0 for _ in _count())


def replay(times_ns: Sequence[int], speed: float = 1.0) -> Iterator[int]:
    """Recorded arrivals, `speed` times as fast, rounded to the nanosecond; ends with them."""
    speed = number("speed", speed, 1e-3, 1e3)
    return iter(times_ns) if speed == 1.0 else (round(time / speed) for time in times_ns)


class Traffic(Protocol):
    """What a simulator pulls requests from. Times never go back."""

    def next_arrival_ns(self, now_ns: int) -> int | None:
        """When the next request comes, as far as is known now; None where none will come unless one finishes."""

    def take(self, now_ns: int) -> tuple[Request, ...]:
        """The requests that have come by now and were not taken yet, in order of arrival."""

    def on_finish(self, request_id: str, now_ns: int) -> None:
        """A request left: finished, refused or aborted."""


class OpenLoop:
    """Requests come when they come, whatever the server does."""

    def __init__(self, requests: Iterable[Request]):
        self._requests = sorted(requests, key=lambda request: request.arrival_ns)  # stable: ties keep their order
        self._next = 0

    def next_arrival_ns(self, now_ns: int) -> int | None:
        return self._requests[self._next].arrival_ns if self._next < len(self._requests) else None

    def take(self, now_ns: int) -> tuple[Request, ...]:
        first = self._next
        while self._next < len(self._requests) and self._requests[self._next].arrival_ns <= now_ns:
            self._next += 1
        return tuple(self._requests[first:self._next])

    def on_finish(self, request_id: str, now_ns: int) -> None:
        """Nobody waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Requests that wait for one another: a user, or the turns of one conversation.

    The first comes at its own `arrival_ns`; each later one `think_ns[i]` after the one before it left, whatever its own
    `arrival_ns` says. `think_ns` has one entry fewer than `requests`.
    """

    requests: tuple[Request, ...]
    think_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.think_ns) != max(0, len(self.requests) - 1) or any(pause < 0 for pause in self.think_ns):
            raise ValueError("a chain needs one pause, not negative, between two requests")


class ClosedLoop:
    """Chains of requests with feedback: a slow server is asked more slowly. Ties are taken in order of the chains."""

    def __init__(self, chains: Iterable[Chain]):
        self._chains = tuple(chain for chain in chains if chain.requests)
        self._waiting: dict[str, tuple[int, int]] = {}  # request that was taken -> (chain, place in it)
        self._due = [(chain.requests[0].arrival_ns, index, 0) for index, chain in enumerate(self._chains)]
        heapq.heapify(self._due)

    def next_arrival_ns(self, now_ns: int) -> int | None:
        return self._due[0][0] if self._due else None

    def take(self, now_ns: int) -> tuple[Request, ...]:
        taken = []
        while self._due and self._due[0][0] <= now_ns:
            time, index, place = heapq.heappop(self._due)
            request = moved(self._chains[index].requests[place], time)
            self._waiting[request.id] = (index, place)
            taken.append(request)
        return tuple(taken)

    def on_finish(self, request_id: str, now_ns: int) -> None:
        """The next request of its chain is due after the pause. Raises KeyError for a request that is not out."""
        index, place = self._waiting.pop(request_id)
        chain = self._chains[index]
        if place + 1 < len(chain.requests):
            heapq.heappush(self._due, (now_ns + chain.think_ns[place], index, place + 1))


def moved(request: Request, arrival_ns: int) -> Request:
    """The request at another time, its deadline moved with it."""
    deadline = request.deadline_ns
    if deadline is not None:
        deadline += arrival_ns - request.arrival_ns
    return replace(request, arrival_ns=arrival_ns, deadline_ns=deadline)
