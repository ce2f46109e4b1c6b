"""Shortest job first, by predicted output. Short requests overtake; long ones can starve while short ones keep coming."""

from dataclasses import dataclass

from pycore.serving.policies.composition import chunked, prefill_first
from pycore.serving.sequence import Sequence
from pycore.serving.step import Step


@dataclass(frozen=True, slots=True)
class Sjf:
    """Admit the shortest predicted output first; requests without a prediction come last, by arrival.

    Preempts the longest. `chunks`: compose with chunked prefill instead of whole prompts first.
    """

    chunks: bool = False
    name: str = "sjf"
    settled: bool = True

    def key(self, sequence: Sequence) -> tuple:
        predicted = sequence.request.predicted_output
        return (1, 0) if predicted is None else (0, predicted)

    def compose(self, step: Step) -> None:
        (chunked if self.chunks else prefill_first)(step)

    def victim(self, candidates: list[Sequence]) -> Sequence:
        return max(candidates, key=lambda sequence: (self.key(sequence), sequence.admission))
