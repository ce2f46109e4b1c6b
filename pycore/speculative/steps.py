"""What the passes of a speculative step cost at a batch, and what follows: curve, table, where it stops paying."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pycore.roofline.step import Step, step_seconds
from pycore.speculative.formulas import expected_tokens, speedup, step_ratio

StepSeconds = Callable[[int, int], float]
"""step_seconds(tokens, sequences): seconds of one pass that carries `tokens` tokens of `sequences` sequences."""

LONGEST_DRAFT = 16
LARGEST_BATCH = 4096
TABLE_ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9)
TABLE_BATCHES = tuple(1 << power for power in range(11))


def roofline_step(step: Step, context: int) -> StepSeconds:
    """The step-time function of a prepared roofline step, every sequence holding `context` tokens.

    One token a sequence is a decoding step. More are a chunk of known tokens on top of the cached ones, each of which
    needs logits, since each may be the last one kept.
    """
    def seconds(tokens: int, sequences: int) -> float:
        if tokens == sequences:
            return step_seconds(step, sequences, sequences * context)
        return step_seconds(step, 0, 0, ((tokens // sequences, context, sequences),), tokens)

    return seconds


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Seconds of the three passes at one batch, from the two step-time functions, and what a step keeps."""

    target: StepSeconds
    draft: StepSeconds
    tokens: Callable[[float, int], float] = expected_tokens.plain  # a step keeps, by acceptance and draft length

    def plain(self, batch: int) -> float:
        return self.target(batch, batch)

    def propose(self, batch: int) -> float:
        return self.draft(batch, batch)

    def check(self, batch: int, draft_length: int) -> float:
        return self.target(batch * (draft_length + 1), batch)

    def speedup(self, acceptance: float, draft_length: int, batch: int) -> float:
        """The same formula as the Term's, for curves and tables; 1 at draft length 0."""
        if draft_length == 0:
            return 1.0
        return speedup.plain(self.tokens(acceptance, draft_length), self.plain(batch), draft_length,
                             self.propose(batch), self.check(batch, draft_length))


def length_curve(costs: StepCosts, acceptance: float, batch: int,
                 longest: int = LONGEST_DRAFT) -> tuple[tuple[int, float], ...]:
    """(draft length, speed-up) from 0, which is plain decoding, to `longest`."""
    return tuple((length, costs.speedup(acceptance, length, batch)) for length in range(longest + 1))


def best(curve: Sequence[tuple[int, float]]) -> tuple[int, float]:
    """The shortest length with the largest speed-up."""
    return max(curve, key=lambda point: (point[1], -point[0]))


def crossover(costs: StepCosts, draft_length: int) -> tuple[tuple[float, int, float], ...]:
    """(acceptance, batch, speed-up) over the table's acceptances and batches."""
    ratios = {batch: step_ratio.plain(costs.plain(batch), draft_length, costs.propose(batch),
                                      costs.check(batch, draft_length)) for batch in TABLE_BATCHES}
    return tuple((one, batch, expected_tokens.plain(one, draft_length) / ratios[batch])
                 for one in TABLE_ACCEPTANCES for batch in TABLE_BATCHES)


def slowdown_batch(costs: StepCosts, acceptance: float, draft_length: int,
                   largest: int = LARGEST_BATCH) -> int | None:
    """The first batch that speculation slows down, or None up to `largest`.

    Batches are doubled until one is slower, then halved in between: exact where the speed-up falls with the batch, and
    a true slow-down whose predecessor is none in any case.
    """
    def slower(batch: int) -> bool:
        return costs.speedup(acceptance, draft_length, batch) < 1

    high = 1
    while not slower(high):
        high *= 2
        if high > largest:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if slower(middle) else (middle, high)
    return high
