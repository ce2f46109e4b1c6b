"""Speculative decoding: does a draft model pay, how far should it look ahead, and at which batch does it stop paying.

A step proposes `draft_length` tokens (gamma) with the draft, one after the other, then checks them all with the target
in one pass. Each proposal is accepted with chance `acceptance` (alpha), independently; the first refusal ends the step
and the target's own token takes its place. Leviathan, Kalman and Matias 2023, "Fast Inference from Transformers via
Speculative Decoding", arXiv 2211.17192.

The paper lets the check cost as much as a plain step, which holds only while the target waits for memory. Here the
check of (gamma + 1) tokens for each of B sequences costs what the caller's step-time function says a step of
B x (gamma + 1) tokens costs, so that the batch at which speculation becomes a slow-down can be found.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.ledger import Term, fact, source_line
from pycore.nouns import Deployment
from pycore.roofline.question import question
from pycore.speculative.formulas import (
    PAPER,
    break_even_acceptance,
    expected_tokens,
    speculative_tpot,
    speedup,
    step_ratio,
    verified_per_token,
)
from pycore.speculative.steps import (
    LARGEST_BATCH,
    LONGEST_DRAFT,
    TABLE_ACCEPTANCES,
    StepCosts,
    StepSeconds,
    best,
    crossover,
    length_curve,
    roofline_step,
    slowdown_batch,
)
from pycore.units import significant
from pycore.vram.draft import beside
from pycore.vram.plan import MemoryPlan


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


def speculate(deployment: Deployment, plan: MemoryPlan, *, acceptance: float, draft_length: int,
              measured: Mapping[int, Term] | None = None, most: Term | None = None) -> Speculation:
    """What the deployment's draft model does at its load, step times from the roofline, bytes from the plan.

    The draft keeps 16-bit weights. `measured` and `most` as `size` takes them. Raises InputError for values outside their
    range, NotKnown where a step cannot be timed.
    """
    target, proposer = question(deployment), question(beside(deployment))
    weights, cache = plan.draft
    return size(acceptance=acceptance, draft_length=draft_length, sequences=target.load.together,
                target_step=roofline_step(target.step, target.load.context),
                draft_step=roofline_step(proposer.step, target.load.context), draft_weights=weights, draft_kv=cache,
                measured=measured, most=most)


def size(*, acceptance: float, draft_length: int, sequences: int, target_step: StepSeconds,
         draft_step: StepSeconds, draft_weights: Term | None = None, draft_kv: Term | None = None,
         step_source: str = "roofline step time", measured: Mapping[int, Term] | None = None,
         most: Term | None = None) -> Speculation:
    """Speculative decoding for one replica that decodes `sequences` sequences together.

    `target_step` and `draft_step` give seconds of one pass; `draft_weights` and `draft_kv` are the draft's own bytes
    per GPU. `measured`: tokens a step by draft length; where it is given, speed-ups follow it instead of the closed form,
    and the best length is one of those measured. `most`: sequences that fit; the verdict speaks of no others. Raises
    InputError for an acceptance outside 0..1, a draft length or a batch below 1.
    """
    validate(acceptance, draft_length, sequences)
    closed = StepCosts(target_step, draft_step)
    costs = closed if measured is None else StepCosts(target_step, draft_step, lambda _, length: measured[length].value)
    alpha = fact("Acceptance", acceptance, "", basis="given", source="the question")
    plain = step_term("Plain decode step", costs.plain(sequences), sequences, step_source)
    propose = step_term("Draft step", costs.propose(sequences), sequences, step_source)
    check = step_term("Check", costs.check(sequences, draft_length), sequences * (draft_length + 1), step_source)
    tokens = expected_tokens(alpha, draft_length) if measured is None else measured[draft_length]
    gain = speedup(tokens, plain, draft_length, propose, check)
    longest = LONGEST_DRAFT if measured is None else max(measured)
    curve = length_curve(costs, acceptance, sequences, longest)
    ratio = step_ratio(plain, draft_length, propose, check)
    pays = ratio.value <= draft_length + 1
    slow = slowdown_batch(costs, acceptance, draft_length)
    return Speculation(
        expected_tokens=tokens, speedup=gain, tpot_s=speculative_tpot(plain, gain),
        verified_per_token=verified_per_token(draft_length, tokens),
        best_length=searched("Best draft length", best(curve)[0], "tokens",
                             f"the length from 0 to {longest} with the largest speed-up", alpha, sequences),
        best_speedup=searched("Speed-up at the best length", best(curve)[1], "×",
                              "speedup at the best draft length (1 where no draft pays)", alpha, sequences),
        break_even_acceptance=break_even_acceptance(ratio, draft_length) if pays else None,
        slowdown_batch=None if slow is None else searched(
            "Batch where it slows down", slow, "sequences", "the smallest batch whose speed-up is below 1",
            alpha, sequences),
        draft_weights=draft_weights, draft_kv=draft_kv, length_curve=curve,
        crossover=crossover(closed, draft_length), slowdown_batches=tuple(
            (one, slowdown_batch(closed, one, draft_length)) for one in TABLE_ACCEPTANCES),
        verdict=verdict(gain.value, best(curve), pays, slow, sequences, None if most is None else int(most.value)))


def validate(acceptance: float, draft_length: int, sequences: int) -> None:
    """Raises InputError for a value outside the formula's domain (nan included)."""
    if not 0 <= acceptance <= 1:
        raise InputError("acceptance", acceptance, "accepted: a number from 0 to 1")
    if draft_length < 1:
        raise InputError("draft_length", draft_length, "accepted: a whole number from 1 up")
    if sequences < 1:
        raise InputError("sequences", sequences, "accepted: a whole number from 1 up")


def step_term(name: str, value: float, tokens: int, source: str) -> Term:
    """A step time that the caller's function gave, as a term."""
    return fact(f"{name} ({tokens:,} tokens)", value, "s", basis="derived", source=source)


def searched(name: str, value: float, unit: str, rule: str, alpha: Term, sequences: int) -> Term:
    """A number found by trying values; `rule` says which."""
    return Term(name=name, value=value, unit=unit, formula=rule, basis="derived", source=PAPER,
                inputs=(("acceptance", alpha), ("sequences", sequences)), line=source_line(searched))


def verdict(gain: float, best_point: tuple[int, float], pays: bool, slow: int | None, sequences: int,
            most: int | None = None) -> str:
    """One sentence: does it pay here, and until where."""
    length, highest = best_point
    if most is not None and sequences > most:
        return crowded(slow, sequences, most)
    if length == 0:
        return f"No draft length pays at {counted(sequences, 'sequence')}" + (
            "." if pays else "; at this length not even if every token were accepted.")
    state = "A speed-up" if gain >= 1 else "A slow-down at this length"
    return (f"{state}: {significant(gain)}×; best with {counted(length, 'draft token')} ({significant(highest)}×). "
            + until(slow, most))


def crowded(slow: int | None, sequences: int, most: int) -> str:
    """What is said where the asked batch does not fit."""
    if most < 1:
        return "Not one sequence of this context fits beside the weights of both models: no batch can be decoded."
    return f"{counted(sequences, 'sequence')} of this context do not fit. {until(slow, most)}"


def until(slow: int | None, most: int | None) -> str:
    """Up to which batch it pays, of those that fit where that is known."""
    if slow == 1:
        return "This length pays at no batch."
    if most is None:
        return f"It pays at every batch tried, up to {LARGEST_BATCH:,}." if slow is None else (
            f"It pays up to {counted(slow - 1, 'sequence')}.")
    fit = f"{counted(most, 'sequence')} {'fits' if most == 1 else 'fit'}"
    last = min(most, LARGEST_BATCH)
    if slow is None or slow > last:
        return f"{fit}; it pays at every batch of " + ("those." if last == most else f"up to {last:,}.")
    return f"{fit}; it pays up to {slow - 1:,} of them."


def counted(number: int, noun: str) -> str:
    """'1 sequence', '16 sequences'."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
