"""What a soak has counted, and what it has found wrong."""

import threading
from collections import Counter
from dataclasses import dataclass, field

KEPT, LONGEST = 20, 2000
HOPELESS = 100  # faults after which going on tells nothing new


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong: its kind ("wrong output", "hang", "leak", ...), words on it, and under which settings."""

    kind: str
    words: str
    settings: str = ""


@dataclass(slots=True)
class Findings:
    """Counts and faults; told by several threads. All faults are counted by kind, the first of them kept in words."""

    counts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    settings: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str, times: int = 1) -> None:
        """Something has happened so often."""
        with self._lock:
            self.counts[name] += times

    def fault(self, kind: str, words: str) -> None:
        """Something is wrong."""
        with self._lock:
            self.kinds[kind] += 1
            if len(self.faults) < KEPT:
                self.faults.append(Fault(kind=kind, words=words[:LONGEST], settings=self.settings))

    @property
    def hopeless(self) -> bool:
        """Whether so much is wrong that nothing new would be learnt."""
        return self.kinds.total() >= HOPELESS
