"""Speculative decoding of a small text by two tiny models: guesses, draws and verdicts, in whole numbers.

Leviathan, Kalman and Matias 2023, arXiv 2211.17192: a guess x from the draft's q is kept with chance min(1, p(x) / q(x));
the first that is not is drawn anew from max(0, p - q); if all are kept the target's own next token comes on top. Every draw
is a whole number below a whole number, so what comes out follows the target's p exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from pycore.scenes.bigrams import WORDS, Distribution, draft, residual, target
from pycore.scenes.toy import mixed

Verdict = Literal["accepted", "rejected", "not reached"]
PROMPT = ". the"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One draft token. p, q: its chance under target and draft; chance = min(1, p/q); draw: kept where it is below that.

    `draw` is None for a guess behind a rejected one: nobody looked at it.
    """

    token: str
    p: float
    q: float
    chance: float
    draw: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One pass of the target over the guesses.

    before   the text so far, its last words;  last: the target's own token of this step
    source   resampled: drawn from what p has more than q, in place of the rejected guess. bonus: on top of k accepted ones
    chance   of that token, in the distribution that it was drawn from
    computed, kept, wasted   positions whose keys and values the pass computed; those that stay; those rolled back
    """

    number: int
    before: tuple[str, ...]
    guesses: tuple[Guess, ...]
    last: str
    source: Literal["resampled", "bonus"]
    chance: float
    computed: int
    kept: int
    wasted: int

    @property
    def accepted(self) -> int:
        return sum(guess.verdict == "accepted" for guess in self.guesses)

    @property
    def tokens(self) -> tuple[str, ...]:
        """What the step adds to the text."""
        return (*(guess.token for guess in self.guesses[:self.accepted]), self.last)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both models at one setting."""

    temperature: str
    similarity: int

    def target(self, before: int) -> Distribution:
        return target(before, self.temperature)

    def draft(self, before: int) -> Distribution:
        return draft(before, self.temperature, self.similarity)


@dataclass(slots=True)
class Tally:
    """Counts over many steps. `runs`: guesses accepted in each; `contexts`: how many looked at stood behind each word."""

    runs: list[int] = field(default_factory=list)
    contexts: dict[int, int] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return len(self.runs)

    @property
    def accepted(self) -> int:
        return sum(self.runs)

    @property
    def looked_at(self) -> int:
        return sum(self.contexts.values())


def below(limit: int, seed: int, step: int, place: int) -> int:
    """A whole number from 0 to below `limit`, from 128 hashed bits: the same on every machine."""
    key = mixed(seed, step, place)
    return (mixed(key, 1, 0) << 64 | mixed(key, 2, 0)) * limit >> 128


@dataclass(frozen=True, slots=True)
class Drawn:
    """A guess and its draw, in whole numbers: kept where `draw`, which is below `theirs`, is below `ours` too. So the chance
    is min(1, ours ÷ theirs) = min(1, p ÷ q)."""

    token: int
    known: Distribution
    guessed: Distribution
    draw: int

    @property
    def ours(self) -> int:
        return self.known.weights[self.token] * self.guessed.total

    @property
    def theirs(self) -> int:
        return self.guessed.weights[self.token] * self.known.total

    @property
    def kept(self) -> bool:
        return self.draw < self.ours


def drawn(pair: Pair, before: int, length: int, seed: int, number: int) -> Iterator[Drawn]:
    """The guesses of a step after the token `before`, each after the one before it, whatever becomes of that."""
    for place in range(length):
        known, guessed = pair.target(before), pair.draft(before)
        token = guessed.at(below(guessed.total, seed, number, 2 * place))
        draw = below(guessed.weights[token] * known.total, seed, number, 2 * place + 1)
        yield Drawn(token, known, guessed, draw)
        before = token


def one_step(pair: Pair, before: int, length: int, seed: int, number: int, tally: Tally) -> tuple[list[int], Distribution]:
    """The tokens that a step adds after the token `before`, guesses accepted, then the target's own, and the distribution
    that this one was drawn from. Counted in `tally`."""
    kept: list[int] = []
    last = None
    for one in drawn(pair, before, length, seed, number):
        tally.contexts[before] = tally.contexts.get(before, 0) + 1
        if not one.kept:
            last = residual(before, pair.temperature, pair.similarity)
            break
        kept.append(one.token)
        before = one.token
    tally.runs.append(len(kept))
    last = last or pair.target(before)
    return [*kept, last.at(below(last.total, seed, number, 2 * length))], last


def spelled(pair: Pair, text: list[int], length: int, seed: int, number: int, kept: list[int], last: Distribution) -> Step:
    """A step after `text` with every guess and every chance; `kept` is what it added, the last of them drawn from `last`."""
    accepted = len(kept) - 1
    guesses = tuple(Guess(
        token=WORDS[one.token], p=one.known.chance(one.token), q=one.guessed.chance(one.token),
        chance=min(1.0, one.ours / one.theirs), draw=None if place > accepted else one.draw / one.theirs,
        verdict="accepted" if place < accepted else "rejected" if place == accepted else "not reached")
        for place, one in enumerate(drawn(pair, text[-1], length, seed, number)))
    return Step(number=number, before=tuple(WORDS[token] for token in text[-6:]), guesses=guesses, last=WORDS[kept[-1]],
                source="bonus" if accepted == length else "resampled", chance=last.chance(kept[-1]), computed=length + 1,
                kept=accepted + 1, wasted=length - accepted)


def run(pair: Pair, length: int, seed: int, steps: int, shown: int = 0) -> tuple[Tally, tuple[Step, ...]]:
    """Counts over `steps` steps, and the first `shown` of them spelled out."""
    text, tally, spelt = [WORDS.index(word) for word in PROMPT.split()], Tally(), []
    for number in range(1, steps + 1):
        kept, last = one_step(pair, text[-1], length, seed, number, tally)
        if number <= shown:
            spelt.append(spelled(pair, text, length, seed, number, kept, last))
        text += kept
    return tally, tuple(spelt)
