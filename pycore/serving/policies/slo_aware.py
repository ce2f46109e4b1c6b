"""Deadlines: least slack first. Requests that cannot make it any more come last, or are shed."""

from dataclasses import dataclass

from pycore.serving.policies.composition import chunked
from pycore.serving.sequence import Sequence
from pycore.serving.step import Step


@dataclass(frozen=True, slots=True)
class SloAware:
    """Admit by slack: deadline of the first token - now - time its prompt takes, at `prefill_ns_per_token`.

    The control plane knows no cost, so the driver says what a prompt token takes (0: order by deadline alone). Those
    whose first token is out have met or missed it: they resume first after a preemption. Those who would be late anyway
    come after those who can still make it, in order of arrival; with `shed` they are refused, and count as dropped.
    """

    prefill_ns_per_token: int = 0
    shed: bool = False
    name: str = "slo_aware"
    settled: bool = False

    def key(self, sequence: Sequence) -> tuple:
        if sequence.issued or sequence.request.deadline_ns is None:
            return (0, 0) if sequence.issued else (2, 0)
        return (1, self.latest_start_ns(sequence))

    def latest_start_ns(self, sequence: Sequence) -> int:
        """When its prompt must start for the first token to be in time."""
        return sequence.request.deadline_ns - self.prefill_ns_per_token * sequence.prompt_tokens

    def compose(self, step: Step) -> None:
        if self.shed:
            for sequence in self._split(step)[1]:
                step.refuse(sequence, "shed: its first token cannot be in time any more")
        chunked(step, lambda: sum(self._split(step), []))

    def _split(self, step: Step) -> tuple[list[Sequence], list[Sequence]]:
        """Those who can make it (or have no deadline) in order of slack, and those who cannot in order of arrival."""
        hopeful, late = [], []
        for sequence in step.waiting:
            kind, start = self.key(sequence)
            (late if kind == 1 and start < step.now_ns else hopeful).append(sequence)
        return hopeful, sorted(late, key=lambda sequence: sequence.serial)

    def victim(self, candidates: list[Sequence]) -> Sequence:
        return max(candidates, key=self._lateness)

    @staticmethod
    def _lateness(sequence: Sequence) -> tuple:
        deadline = sequence.request.deadline_ns
        return (deadline is None, deadline or 0, sequence.admission)
