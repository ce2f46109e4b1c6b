"""Stop strings in a text that comes in pieces: what could still become one is held back.

The stop that is complete first ends the text (of two that are complete at once, the longer), so the end does not depend on
how the text is cut into pieces.
"""

from collections.abc import Sequence

from pycore.errors import InputError

MOST_STOPS, LONGEST_STOP = 64, 4096


class StopStrings:
    """Watches one text for `stops`. `include`: the stop that was found is part of the text.

    Raises InputError for a stop that is empty or too long, and for too many.
    """

    __slots__ = ("stops", "include", "held", "longest")

    def __init__(self, stops: Sequence[str], *, include: bool = False):
        self.stops, self.include, self.held = checked(stops), include, ""
        self.longest = max(map(len, self.stops), default=0)

    def push(self, text: str) -> tuple[str, str | None]:
        """(text that is sure now, the stop that was hit or None). Nothing comes after a hit."""
        seen = self.held + text
        first = min(((at + len(stop), at, stop) for stop in self.stops if (at := seen.find(stop)) >= 0), default=None)
        if first is not None:
            end, start, stop = first
            self.held = ""
            return seen[:end if self.include else start], stop
        keep = self._waiting(seen)
        self.held = seen[len(seen) - keep:]
        return seen[:len(seen) - keep], None

    def _waiting(self, text: str) -> int:
        """How many of the last characters are the beginning of a stop."""
        for size in range(min(self.longest - 1, len(text)), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self.stops):
                return size
        return 0

    def flush(self) -> str:
        """What was held back, where no stop came of it."""
        held, self.held = self.held, ""
        return held


def checked(stops: Sequence[str]) -> tuple[str, ...]:
    """Stops that can be watched for. Raises InputError."""
    if isinstance(stops, str) or not isinstance(stops, Sequence):
        raise InputError("stop", stops, "accepted: a list of texts")
    if len(stops) > MOST_STOPS:
        raise InputError("stop", f"{len(stops):,} texts", f"accepted: at most {MOST_STOPS}")
    for one in stops:
        if not isinstance(one, str) or not 0 < len(one) <= LONGEST_STOP:
            raise InputError("stop", one, f"accepted: texts of 1 to {LONGEST_STOP:,} characters")
    return tuple(stops)
