"""Cache-aware: the longest cached prefix first, so that blocks are used before they are evicted (SGLang's LPM)."""

from dataclasses import dataclass

from pycore.serving.policies.composition import chunked
from pycore.serving.sequence import Sequence
from pycore.serving.step import Step


@dataclass(frozen=True, slots=True)
class CacheAware:
    """Admit by how many tokens the prefix cache holds, most first; equal ones by arrival.

    Looks at the first `window` of the queue, so that a step's cost is bounded. A request that hits nothing can be
    overtaken again and again: after `patience_ns` in the queue it goes first (None: never).
    """

    window: int = 64
    patience_ns: int | None = None
    name: str = "cache_aware"
    settled: bool = False

    def key(self, sequence: Sequence) -> tuple:
        return ()

    def compose(self, step: Step) -> None:
        chunked(step, lambda: self._order(step))

    def _order(self, step: Step) -> list[Sequence]:
        def rank(sequence: Sequence) -> tuple:
            if self.patience_ns is not None and step.now_ns - sequence.request.arrival_ns > self.patience_ns:
                return (0, 0)
            return (1, -len(step.memory.hits(sequence)))

        return sorted(step.waiting[:self.window], key=rank)  # stable: arrival decides among equals

    def victim(self, candidates: list[Sequence]) -> Sequence:
        return candidates[-1]
