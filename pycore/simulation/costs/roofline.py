"""Step times from `pycore.roofline`: the work of a step on what the card's kernels reach (Williams et al. 2009).

The very step that infersize shows. Matrices depend on the number of tokens and of logits alone, so their part is kept;
attention is worked out anew each step, since contexts grow: a prompt piece of t tokens after b has b·t + t(t+1)/2 pairs
and reads the b cached tokens again.
"""

from collections.abc import Iterator

from pycore.errors import NotKnown
from pycore.roofline.step import Parts, Step, attention_parts, decode_seconds, joined_parts, matrix_parts, sum_parts
from pycore.simulation.costs.work import StepWork, whole_ns


class RooflineCost:
    """`step_ns` of a prepared `Step`. With pipeline stages a step passes through all of them, one micro-batch."""

    __slots__ = ("step", "_matrices")

    def __init__(self, step: Step):
        """Raises NotKnown where the card's dense rate is, so that prompts cannot be timed."""
        if not step.timed_prompts:
            raise NotKnown("no source gives this card's dense rate, so reading prompts cannot be timed", "hardware")
        self.step = step
        self._matrices: dict[tuple[int, int], Parts] = {}

    def parts(self, work: StepWork) -> Parts:
        """Seconds of the step by cause."""
        decoding, cached, _, chunks, ended = work
        tokens, pieces = decoding, ()
        if chunks:
            tokens += work.prompt_tokens
            pieces = tuple([(count, before, 1) for count, before in chunks])
        matrices = self.matrices(tokens, decoding + ended)
        return joined_parts(self.step, matrices, attention_parts(self.step, decoding, cached, pieces))

    def matrices(self, tokens: int, rows: int) -> Parts:
        """Everything but attention, kept by its two numbers."""
        found = self._matrices.get((tokens, rows))
        if found is None:
            found = self._matrices[tokens, rows] = matrix_parts(self.step, tokens, rows)
        return found

    def step_ns(self, work: StepWork) -> int:
        return whole_ns(sum_parts(self.parts(work)))

    def decode_times(self, work: StepWork) -> Iterator[int]:
        """See `work.decode_times`."""
        return map(whole_ns, decode_seconds(self.step, self.matrices(work.decoding, work.decoding), work.decoding,
                                            work.cached))

    def limits_passed(self, longest: int, sequences: int, tokens: int) -> tuple[str, ...]:
        """None: the roofline has no table to leave."""
        return ()
