"""What the host adds to a step: building the batch, launching, handing out tokens. A parameter, with its evidence.

Default nothing: in the tails of two vLLM 0.19 runs (every batch known, no prompts left, at most 16 sequences) steps
take -0.4 % and +0.2 % more than their kernels alone, because vLLM schedules the next step while this one runs
(`--async-scheduling`); `pycore.simulation.golden` shows the whole runs. An engine that does not do so pays:
inference-sim (BLIS) uses about 32 µs a layer for steps that read prompts and 4 µs a request, fitted on vLLM logs; with
these two charged in full our runs of vLLM 0.19 miss by up to 5.9 %.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.simulation.costs.work import StepCost, StepWork, decode_times

EVIDENCE = "LLMServingSim's vLLM 0.19.0 runs: no host time is visible beside the kernels (async scheduling)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Host nanoseconds added to what `cost` says: a step, a sequence in it, a step that reads prompts."""

    cost: StepCost
    per_step_ns: int = 0
    per_sequence_ns: int = 0
    per_prompt_step_ns: int = 0

    def __post_init__(self):
        for name in ("per_step_ns", "per_sequence_ns", "per_prompt_step_ns"):
            if not 0 <= getattr(self, name) <= 10**12:
                raise InputError(name, getattr(self, name), "accepted: 0 to 1000 s, in nanoseconds")

    def step_ns(self, work: StepWork) -> int:
        added = self.per_step_ns + self.per_sequence_ns * (work.decoding + len(work.chunks))
        return self.cost.step_ns(work) + added + (self.per_prompt_step_ns if work.chunks else 0)

    def decode_times(self, work: StepWork) -> Iterator[int]:
        """See `work.decode_times`."""
        added = self.per_step_ns + self.per_sequence_ns * work.decoding
        return (length + added for length in decode_times(self.cost, work))

    def limits_passed(self, longest: int, sequences: int, tokens: int) -> tuple[str, ...]:
        return self.cost.limits_passed(longest, sequences, tokens)
