"""What happened to a sequence, as plain data. Tokens of running decodes make no event: they are counted (sequence.py)."""

from dataclasses import dataclass
from typing import Literal

EventKind = Literal["first token", "finished", "refused", "aborted", "handed over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to one sequence at `at_ns`; `reason` says why it was refused or why it ended."""

    kind: EventKind
    sequence_id: str
    at_ns: int
    reason: str = ""
