"""Speculative decoding: does a draft model pay, how far should it look ahead, and at which batch does it stop paying.

A step proposes `draft_length` tokens (gamma) with the draft, one after the other, then checks them all with the target
in one pass. Each proposal is accepted with chance `acceptance` (alpha), independently; the first refusal ends the step
and the target's own token takes its place. Leviathan, Kalman and Matias 2023, "Fast Inference from Transformers via
Speculative Decoding", arXiv 2211.17192.

The paper lets the check cost as much as a plain step, which holds only while the target waits for memory. Here the
check of (gamma + 1) tokens for each of B sequences costs what the caller's step-time function says a step of
B x (gamma + 1) tokens costs, so that the batch at which speculation becomes a slow-down can be found.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pycore.errors import InputError
from pycore.ledger import Term, fact, source_line, term
from pycore.nouns import Deployment, Format, Model, Parallel
from pycore.units import significant

StepSeconds = Callable[[int, int], float]
"""step_seconds(tokens, sequences): seconds of one forward pass that carries `tokens` tokens of `sequences` sequences."""

PAPER = "Leviathan et al. 2023, arXiv 2211.17192"
LONGEST_DRAFT = 16
LARGEST_BATCH = 4096
TABLE_ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9)
TABLE_BATCHES = tuple(1 << power for power in range(11))


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """What a draft model does for one replica.

    `break_even_acceptance` is None where no acceptance pays; `slowdown_batch` is None where none up to 4,096 sequences
    is slower. `length_curve`: (draft length, speed-up), length 0 being plain decoding. `crossover`: (acceptance, batch,
    speed-up) at the asked draft length. `slowdown_batches`: (acceptance, first batch that is slower, or None).
    """

    expected_tokens: Term
    speedup: Term
    tpot_s: Term
    verified_per_token: Term
    best_length: Term
    best_speedup: Term
    break_even_acceptance: Term | None
    slowdown_batch: Term | None
    draft_weights: Term | None
    draft_kv: Term | None
    length_curve: tuple[tuple[int, float], ...]
    crossover: tuple[tuple[float, int, float], ...]
    slowdown_batches: tuple[tuple[float, int | None], ...]
    verdict: str

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms that have a value."""
        named = (self.expected_tokens, self.speedup, self.tpot_s, self.verified_per_token, self.best_length,
                 self.best_speedup, self.break_even_acceptance, self.slowdown_batch, self.draft_weights, self.draft_kv)
        return tuple(one for one in named if one is not None)


@term("Tokens a step", "tokens", source=f"{PAPER}, equation 1")
def expected_tokens(acceptance, draft_length):
    """(1 − acceptance^(draft_length + 1)) ÷ (1 − acceptance)

    Written as the sum 1 + a + ... + a^gamma, which is the same number, holds at a = 1 and needs no power function.
    """
    powers = [1.0]
    for _ in range(draft_length):
        powers.append(powers[-1] * acceptance)
    return math.fsum(powers)


@term("Speed-up", "×", source=f"{PAPER}, theorem 3.8, with the check priced at its real step time")
def speedup(tokens_per_step, plain_step_s, draft_length, draft_step_s, check_step_s):
    """tokens_per_step × plain_step_s ÷ (draft_length × draft_step_s + check_step_s)"""
    return tokens_per_step * plain_step_s / (draft_length * draft_step_s + check_step_s)


@term("Time per token with the draft", "s")
def speculative_tpot(plain_step_s, speedup):
    """plain_step_s ÷ speedup"""
    return plain_step_s / speedup


@term("Target tokens computed per token kept", "", source=f"{PAPER}, theorem 3.11 with a free draft")
def verified_per_token(draft_length, tokens_per_step):
    """(draft_length + 1) ÷ tokens_per_step"""
    return (draft_length + 1) / tokens_per_step


@term("Cost of a speculative step in plain steps", "")
def step_ratio(plain_step_s, draft_length, draft_step_s, check_step_s):
    """(draft_length × draft_step_s + check_step_s) ÷ plain_step_s"""
    return (draft_length * draft_step_s + check_step_s) / plain_step_s


@term("Break-even acceptance", "", source=f"{PAPER}, theorem 3.8 solved for the acceptance")
def break_even_acceptance(step_ratio, draft_length):
    """the acceptance a with (1 − a^(draft_length + 1)) ÷ (1 − a) = step_ratio, by bisection

    Below 0 tokens kept cannot fall, so 0 is returned where a step costs no more than a plain one. Raises ValueError
    where even a = 1 does not pay (step_ratio > draft_length + 1).
    """
    if step_ratio > draft_length + 1:
        raise ValueError("no acceptance rate pays for this step")
    low, high = 0.0, 1.0
    if step_ratio <= 1:
        return low
    for _ in range(60):
        middle = (low + high) / 2
        if expected_tokens.plain(middle, draft_length) < step_ratio:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Seconds of the three passes at one batch, from the two step-time functions."""

    target: StepSeconds
    draft: StepSeconds

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
        return speedup.plain(expected_tokens.plain(acceptance, draft_length), self.plain(batch), draft_length,
                             self.propose(batch), self.check(batch, draft_length))


def draft_deployment(deployment: Deployment, draft: Model, weights: Format) -> Deployment:
    """How the draft is laid out beside the target: same devices, load and cache format, its own shape and weights.

    Split as the target is where the draft's heads allow it, otherwise whole on every device (engines offer both).
    The draft is never pipelined.
    """
    tensor = deployment.parallel.tensor
    divides = draft.attention_heads % tensor == 0
    parallel = Parallel(tensor=tensor if divides else 1, data=deployment.parallel.data)
    return replace(deployment, model=draft, weights=weights, parallel=parallel)


def speculate(*, acceptance: float, draft_length: int, sequences: int, target_step: StepSeconds,
              draft_step: StepSeconds, draft_weights: Term | None = None, draft_kv: Term | None = None,
              step_source: str = "roofline step time") -> Speculation:
    """Size speculative decoding for one replica that decodes `sequences` sequences together.

    `target_step` and `draft_step` give seconds of one pass; `draft_weights` and `draft_kv` are the draft's own bytes
    per GPU. Raises InputError for an acceptance outside 0..1, a draft length or a batch below 1.
    """
    validate(acceptance, draft_length, sequences)
    costs = StepCosts(target_step, draft_step)
    alpha = fact("Acceptance", acceptance, "", basis="given", source="the question")
    plain = measured_step("Plain decode step", costs.plain(sequences), sequences, step_source)
    propose = measured_step("Draft step", costs.propose(sequences), sequences, step_source)
    check = measured_step("Check", costs.check(sequences, draft_length), sequences * (draft_length + 1), step_source)
    tokens = expected_tokens(alpha, draft_length)
    gain = speedup(tokens, plain, draft_length, propose, check)
    curve = length_curve(costs, acceptance, sequences)
    ratio = step_ratio(plain, draft_length, propose, check)
    pays = ratio.value <= draft_length + 1
    slow = slowdown_batch(costs, acceptance, draft_length)
    return Speculation(
        expected_tokens=tokens, speedup=gain, tpot_s=speculative_tpot(plain, gain),
        verified_per_token=verified_per_token(draft_length, tokens),
        best_length=searched("Best draft length", best(curve)[0], "tokens",
                             f"the length from 0 to {LONGEST_DRAFT} with the largest speed-up", alpha, sequences),
        best_speedup=searched("Speed-up at the best length", best(curve)[1], "×",
                              "speedup at the best draft length (1 where no draft pays)", alpha, sequences),
        break_even_acceptance=break_even_acceptance(ratio, draft_length) if pays else None,
        slowdown_batch=None if slow is None else searched(
            "Batch where it slows down", slow, "sequences", "the smallest batch whose speed-up is below 1",
            alpha, sequences),
        draft_weights=draft_weights, draft_kv=draft_kv, length_curve=curve,
        crossover=crossover(costs, draft_length), slowdown_batches=tuple(
            (one, slowdown_batch(costs, one, draft_length)) for one in TABLE_ACCEPTANCES),
        verdict=verdict(gain.value, best(curve), pays, slow, sequences))


def validate(acceptance: float, draft_length: int, sequences: int) -> None:
    """Raises InputError for a value outside the formula's domain (nan included)."""
    if not 0 <= acceptance <= 1:
        raise InputError("acceptance", acceptance, "accepted: a number from 0 to 1")
    if draft_length < 1:
        raise InputError("draft_length", draft_length, "accepted: a whole number from 1 up")
    if sequences < 1:
        raise InputError("sequences", sequences, "accepted: a whole number from 1 up")


def measured_step(name: str, value: float, tokens: int, source: str) -> Term:
    """A step time that the caller's function gave, as a term."""
    return fact(f"{name} ({tokens:,} tokens)", value, "s", basis="derived", source=source)


def searched(name: str, value: float, unit: str, rule: str, alpha: Term, sequences: int) -> Term:
    """A number found by trying values; `rule` says which."""
    return Term(name=name, value=value, unit=unit, formula=rule, basis="derived", source=PAPER,
                inputs=(("acceptance", alpha), ("sequences", sequences)), line=source_line(searched))


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


def verdict(gain: float, best_point: tuple[int, float], pays: bool, slow: int | None, sequences: int) -> str:
    """One sentence: does it pay here, and until where."""
    length, most = best_point
    if length == 0:
        return f"No draft length pays at {counted(sequences, 'sequence')}" + (
            "." if pays else "; at this length not even if every token were accepted.")
    if slow is None:
        until = f"It pays at every batch tried, up to {LARGEST_BATCH:,}."
    else:
        until = f"It pays up to {counted(slow - 1, 'sequence')}." if slow > 1 else "This length pays at no batch."
    state = "A speed-up" if gain >= 1 else "A slow-down at this length"
    return (f"{state}: {significant(gain)}×; best with {counted(length, 'draft token')} ({significant(most)}×). "
            + until)


def counted(number: int, noun: str) -> str:
    """'1 sequence', '16 sequences'."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
