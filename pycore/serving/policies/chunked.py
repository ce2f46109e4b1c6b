"""Chunked prefill: decodes first, prompt chunks fill the rest of the budget (Sarathi-Serve, OSDI 2024; vLLM v1)."""

from dataclasses import dataclass

from pycore.serving.policies.composition import chunked
from pycore.serving.sequence import Sequence
from pycore.serving.step import Step


@dataclass(frozen=True, slots=True)
class Chunked:
    """Every decode advances in every step; `limits.chunk_budget` bounds the step, so that it bounds the decodes' delay."""

    name: str = "chunked"
    settled: bool = True

    def key(self, sequence: Sequence) -> tuple:
        return ()

    def compose(self, step: Step) -> None:
        chunked(step)

    def victim(self, candidates: list[Sequence]) -> Sequence:
        return candidates[-1]
