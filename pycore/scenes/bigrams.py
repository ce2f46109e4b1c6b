"""Two tiny language models that know the word before: a target, and a draft that is partly like it. Whole numbers only.

The target counts which word follows which in a small text and adds one to each count, so that nothing is impossible. A
temperature T raises weights to the power 1/T; those offered have it done in whole numbers: powers by multiplying, roots by
`math.isqrt`. The draft mixes the target's distribution with one that knows no context (how often each word stands).
"""

import functools
import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

TEXT = ("the cat sat on the mat . the dog sat on the rug . the cat saw the dog . the dog saw a bird . a bird sat on the "
        "cat . the cat ran . a dog ran and the bird sang . the bird saw the mat and sang .")
WORDS = tuple(dict.fromkeys(TEXT.split()))
PLENTY = 40  # counts are worth so much more than the one that every pair has
ROOM = 1 << 32  # roots are taken of weights times this, so that their whole part says enough
TEMPERATURES = ("0", "0.25", "0.5", "1", "2", "4")


@dataclass(frozen=True, slots=True)
class Distribution:
    """Weights of all words; a word's chance is weight ÷ total, exactly. `ends`: sums of the weights up to each word."""

    weights: tuple[int, ...]
    ends: tuple[int, ...]
    total: int

    @classmethod
    def of(cls, weights: list[int]) -> "Distribution":
        ends = tuple(accumulate(weights))
        return cls(tuple(weights), ends, ends[-1])

    def chance(self, token: int) -> float:
        return self.weights[token] / self.total

    def at(self, place: int) -> int:
        """The token at a place from 0 to below `total`, words laid end to end by their weights."""
        return bisect_right(self.ends, place)


def tempered(weights: list[int], temperature: str) -> list[int]:
    """Weights at a temperature of TEMPERATURES; 0 keeps the heaviest alone (the first of equals)."""
    if temperature == "0":
        best = weights.index(max(weights))
        return [int(token == best) for token in range(len(weights))]
    if temperature in ("0.25", "0.5"):
        return [weight ** (4 if temperature == "0.25" else 2) for weight in weights]
    for _ in range({"1": 0, "2": 1, "4": 2}[temperature]):
        weights = [math.isqrt(weight * ROOM) for weight in weights]
    return weights


@functools.cache
def counts() -> tuple[tuple[int, ...], ...]:
    """How often each word follows each: [before][after]."""
    words = TEXT.split()
    table = [[0] * len(WORDS) for _ in WORDS]
    for before, after in zip(words, words[1:], strict=False):
        table[WORDS.index(before)][WORDS.index(after)] += 1
    return tuple(map(tuple, table))


@functools.cache
def target(before: int, temperature: str) -> Distribution:
    """What follows a word, as the target has it."""
    return Distribution.of(tempered([1 + PLENTY * count for count in counts()[before]], temperature))


@functools.cache
def draft(before: int, temperature: str, similarity: int) -> Distribution:
    """What follows a word, as the draft has it: `similarity` parts in a hundred of the target, the rest without context.

    At temperature 0 the draft names the heaviest word of the mixture at temperature 1.
    """
    mixed = "1" if temperature == "0" else temperature
    known = target(before, mixed)
    words = TEXT.split()
    plain = Distribution.of(tempered([1 + PLENTY * words.count(word) for word in WORDS], mixed))
    weights = [similarity * own * plain.total + (100 - similarity) * other * known.total
               for own, other in zip(known.weights, plain.weights, strict=True)]
    divisor = math.gcd(*weights)
    return Distribution.of(tempered([weight // divisor for weight in weights], "0" if temperature == "0" else "1"))


def acceptance(before: int, temperature: str, similarity: int) -> tuple[int, int]:
    """Chance that a guess after `before` is kept, as (numerator, denominator): the sum of min(p, q) over all words."""
    known, guessed = target(before, temperature), draft(before, temperature, similarity)
    return (sum(min(own * guessed.total, other * known.total)
                for own, other in zip(known.weights, guessed.weights, strict=True)), known.total * guessed.total)


@functools.cache
def residual(before: int, temperature: str, similarity: int) -> Distribution:
    """Where a refused guess after `before` is drawn anew: max(0, p - q), normalised (Leviathan et al. 2023, section 2.3).

    Only where p and q differ: where they are equal no guess is refused.
    """
    known, guessed = target(before, temperature), draft(before, temperature, similarity)
    return Distribution.of([max(0, own * guessed.total - other * known.total)
                            for own, other in zip(known.weights, guessed.weights, strict=True)])
