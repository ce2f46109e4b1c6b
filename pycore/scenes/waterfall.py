"""Scene (c): speculative decoding token by token (drafting.py): its steps, what many of them measured, and their film."""

import functools
from dataclasses import dataclass

from pycore.ledger import Term, fact, term
from pycore.scenes.bigrams import acceptance
from pycore.scenes.drafting import PROMPT, Pair, Step, Tally, run
from pycore.scenes.film import Film
from pycore.scenes.stage import Setting, Stage
from pycore.speculative.formulas import PAPER, expected_tokens

MEASURED_STEPS = 400
LONGEST_CURVE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """Tokens a step at one draft length: by the closed form at the measured acceptance, and as counted in steps of it."""

    draft_tokens: int
    expected: float
    measured: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The steps that are shown, and what `MEASURED_STEPS` of them measured.

    acceptance   guesses accepted of those looked at;  exact: the mean of sum min(p, q) over the same contexts
    film         the pool at each step, guesses written and not yet given back: its frame n is step n
    expected     tokens a step by the closed form at that acceptance;  measured: as counted
    wasted_share   positions computed for nothing
    """

    draft_tokens: int
    steps: tuple[Step, ...]
    acceptance: Term
    exact: Term
    expected: Term
    measured: Term
    wasted_share: Term
    curve: tuple[Rung, ...]
    film: Film

    @property
    def text(self) -> tuple[str, ...]:
        return (*PROMPT.split(), *(token for step in self.steps for token in step.tokens))


@term("Acceptance, measured", "", basis="measured")
def measured_acceptance(accepted, looked_at):
    """accepted ÷ looked_at"""
    return accepted / looked_at


@term("Tokens a step, measured", "tokens", basis="measured")
def measured_tokens(tokens, steps):
    """tokens ÷ steps"""
    return tokens / steps


@term("Positions computed for nothing", "%", basis="measured")
def wasted_share(wasted, computed):
    """100 × wasted ÷ computed"""
    return 100 * wasted / computed


def exact_acceptance(pair: Pair, contexts: dict[int, int]) -> Term:
    """The mean of sum min(p, q) over the words that guesses stood behind."""
    looked_at = sum(contexts.values())
    total = 0.0
    for before, count in sorted(contexts.items()):
        over, under = acceptance(before, pair.temperature, pair.similarity)
        total += count * (over / under)
    return fact("Acceptance, exact", total / looked_at, "", basis="derived",
                source=f"{PAPER}, corollary 3.6: the sum of min(p, q) over all words, mean over {looked_at:,} contexts")


@functools.lru_cache(maxsize=8)
def waterfall(*, draft_tokens: int, similarity: int, temperature: str, seed: int, steps: int, block_size: int) -> Waterfall:
    """Speculative decoding of a small text. `similarity` in parts of a hundred."""
    pair = Pair(temperature, similarity)
    found, shown = run(pair, draft_tokens, seed, MEASURED_STEPS, steps)
    rate = measured_acceptance(found.accepted, found.looked_at)
    return Waterfall(
        draft_tokens=draft_tokens, steps=shown, acceptance=rate, exact=exact_acceptance(pair, found.contexts),
        expected=expected_tokens(rate, draft_tokens), measured=tokens_a_step(found),
        wasted_share=wasted_share(found.steps * draft_tokens - found.accepted, found.steps * (draft_tokens + 1)),
        curve=curve(pair, seed, rate.value), film=filmed(shown, draft_tokens, block_size))


def curve(pair: Pair, seed: int, rate: float) -> tuple[Rung, ...]:
    """Tokens a step for each draft length, each measured on as many steps of its own, so that the asked length's is the
    figure above."""
    return tuple(Rung(draft_tokens=length, expected=expected_tokens.plain(rate, length),
                      measured=tokens_a_step(run(pair, length, seed, MEASURED_STEPS)[0]))
                 for length in range(1, LONGEST_CURVE + 1))


def tokens_a_step(found: Tally) -> Term:
    """What a step kept, on average."""
    return measured_tokens(found.accepted + found.steps, found.steps)


def filmed(steps: tuple[Step, ...], draft_tokens: int, block_size: int) -> Film:
    """The same steps on the real scheduler, which plans the guesses and rolls back what was refused. One picture a step."""
    total = sum(step.kept for step in steps) + draft_tokens + 2
    longest = len(PROMPT.split()) + total
    stage = Stage(Setting(blocks=-(-longest // block_size), block_size=block_size, step_tokens=longest, longest=longest,
                          draft_tokens=draft_tokens))
    *prompt, first = PROMPT.split()
    stage.add("A", prompt, total)
    passed(stage, (), (first,))  # the prompt gives the first token, by itself
    stage.frames.clear()
    for step in steps:
        passed(stage, tuple(guess.token for guess in step.guesses), step.tokens)
    return stage.film()


def passed(stage: Stage, guesses: tuple[str, ...], tokens: tuple[str, ...]) -> None:
    """One pass: the guesses are written behind what is known, and these tokens come out."""
    plan, ids = stage.plan(), stage.vocabulary.id
    stage.execute(plan, {"A": [*stage.said["A"].tokens, *map(ids, guesses)]})
    stage.took(plan, {"A": tuple(map(ids, tokens))})
