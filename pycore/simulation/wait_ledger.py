"""Why one server's queue stood still, by time: one log that all who wait there share.

A scheduler holds its whole queue back for one reason a step. Thousands may wait through thousands of changes of that
reason, so a wait with more than `MOST` of them is summed up: one gap a reason for its earlier part, as long as the time
that the reason held (how long is exact, when is not), and the last `EXACT` gaps before it ended as they were.
"""

from bisect import bisect_left, bisect_right

from pycore.simulation.records import Gap

Why = tuple[str, str | None]
MOST, EXACT = 64, 32


class Held:
    """When one reason held, whoever stood before: intervals, and the time that it had held before each."""

    __slots__ = ("starts", "ends", "before")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []  # one fewer while it holds
        self.before: list[int] = []

    def begin(self, at_ns: int) -> None:
        self.before.append(self.before[-1] + self.ends[-1] - self.starts[-1] if self.ends else 0)
        self.starts.append(at_ns)

    def until(self, at_ns: int) -> int:
        """Nanoseconds that it held up to `at_ns`."""
        place = bisect_right(self.starts, at_ns) - 1
        if place < 0:
            return 0
        end = min(self.ends[place], at_ns) if place < len(self.ends) else at_ns
        return self.before[place] + end - self.starts[place]


class Ledger:
    """The reasons of a server's plans, one entry while they stay the same. `summed`: a wait was summed up."""

    __slots__ = ("starts", "reasons", "held", "summed")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.reasons: list[Why] = []
        self.held: dict[str, Held] = {}
        self.summed = False

    def note(self, start_ns: int, why: Why) -> None:
        """From the step at `start_ns` on the queue waits for this reason."""
        last = self.reasons[-1] if self.reasons else None
        if last == why:
            return
        if last is None or last[0] != why[0]:
            if last is not None:
                self.held[last[0]].ends.append(start_ns)
            self.held.setdefault(why[0], Held()).begin(start_ns)
        self.starts.append(start_ns)
        self.reasons.append(why)

    def between(self, since_ns: int, until_ns: int) -> list[Gap]:
        """The gaps of one who waited from `since_ns` to `until_ns`; they follow one another without a hole."""
        first, last = max(0, bisect_right(self.starts, since_ns) - 1), bisect_left(self.starts, until_ns)
        found: list[Gap] = []
        if last - first > MOST:
            first = last - EXACT
            found = self.sums(since_ns, self.starts[first])
            self.summed = True
        for place in range(first, last):
            start = max(since_ns, self.starts[place])
            end = min(self.starts[place + 1], until_ns) if place + 1 < len(self.starts) else until_ns
            if end > start:
                found.append(Gap(start, end, *self.reasons[place]))
        return found

    def sums(self, since_ns: int, until_ns: int) -> list[Gap]:
        """One gap a reason, as long as it held between the two times, in the order in which reasons first came up."""
        found, at = [], since_ns
        for reason, held in self.held.items():
            length = held.until(until_ns) - held.until(since_ns)
            if length:
                found.append(Gap(at, at + length, reason))
                at += length
        return found
