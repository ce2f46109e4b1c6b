"""Priority: lower numbers first, and they may push out higher ones."""

from dataclasses import dataclass

from pycore.serving.policies.composition import chunked
from pycore.serving.sequence import Sequence
from pycore.serving.step import Step


@dataclass(frozen=True, slots=True)
class Priority:
    """Admit by priority, then by arrival; preempt the least important, then the latest admitted.

    `preemptive`: the first in the queue takes seat and blocks from a strictly less important running one, so that
    importance counts also when the batch is full. Only strict order preempts, so two requests never push each other out
    in turn. Without it, only a shortage of blocks preempts, as in vLLM's priority scheduling.
    """

    preemptive: bool = True
    name: str = "priority"
    settled: bool = True

    def key(self, sequence: Sequence) -> tuple:
        return (sequence.request.priority,)

    def compose(self, step: Step) -> None:
        if self.preemptive:
            self._push_out(step)
        chunked(step)

    def _push_out(self, step: Step) -> None:
        head = step.head
        while head is not None and not step.fits(head):
            lesser = [sequence for sequence in step.candidates() if sequence.request.priority > head.request.priority]
            if not lesser:
                return
            step.preempt(self.victim(lesser))

    def victim(self, candidates: list[Sequence]) -> Sequence:
        return max(candidates, key=lambda sequence: (sequence.request.priority, sequence.admission))
