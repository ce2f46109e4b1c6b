"""First come, first served, but decodes never wait: a whole prompt joins a step only when it fits beside them."""

from dataclasses import dataclass

from pycore.serving.policies.composition import decode_first
from pycore.serving.sequence import Sequence
from pycore.serving.step import Step


@dataclass(frozen=True, slots=True)
class DecodeFirst:
    """Admit in order of arrival; prompts are not cut, so a long one waits until enough decodes have finished."""

    name: str = "decode_first"
    settled: bool = True

    def key(self, sequence: Sequence) -> tuple:
        return ()

    def compose(self, step: Step) -> None:
        decode_first(step)

    def victim(self, candidates: list[Sequence]) -> Sequence:
        return candidates[-1]
