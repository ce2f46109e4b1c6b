"""First come, first served: prompts go first and whole, decodes stall meanwhile."""

from dataclasses import dataclass

from pycore.serving.policies.composition import prefill_first
from pycore.serving.sequence import Sequence
from pycore.serving.step import Step


@dataclass(frozen=True, slots=True)
class Fcfs:
    """Admit in order of arrival; a step computes prompts if there are any to compute, else decodes."""

    name: str = "fcfs"
    settled: bool = True

    def key(self, sequence: Sequence) -> tuple:
        return ()

    def compose(self, step: Step) -> None:
        prefill_first(step)

    def victim(self, candidates: list[Sequence]) -> Sequence:
        return candidates[-1]
