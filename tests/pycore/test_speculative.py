"""Oracles: exact fractions, a simulation of acceptance, the paper's special case, and rates the paper reports."""

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore.errors import InputError
from pycore.ledger import fact
from pycore.speculative import size, steps
from pycore.speculative.formulas import break_even_acceptance, expected_tokens
from pycore.speculative.steps import StepCosts

RATES = st.floats(0, 1)
LENGTHS = st.integers(1, 16)


def flat(seconds):
    """A step that costs the same however many tokens it carries: the paper's assumption."""
    return lambda tokens, sequences: seconds


def memory_then_compute(fixed, per_token):
    """A roofline in two numbers: weights are read once, then arithmetic takes over."""
    return lambda tokens, sequences: max(fixed, per_token * tokens)


def case(**changes):
    settings = dict(acceptance=0.8, draft_length=4, sequences=1, target_step=flat(0.020), draft_step=flat(0.001))
    return size(**(settings | changes))


@given(st.fractions(0, Fraction(999, 1000)), LENGTHS)
def test_expected_tokens_is_the_closed_form(rate, length):
    exact = (1 - rate ** (length + 1)) / (1 - rate)
    assert expected_tokens.plain(float(rate), length) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("length", [1, 4, 16])
def test_certain_acceptance_keeps_every_token(length):
    assert expected_tokens.plain(1.0, length) == length + 1
    assert expected_tokens.plain(0.0, length) == 1


@pytest.mark.parametrize(("rate", "length"), [(0.3, 2), (0.7, 4), (0.9, 8)])
def test_expected_tokens_against_a_simulation(rate, length):
    chance = random.Random(20221130)
    steps, kept = 200_000, 0
    for _ in range(steps):
        for _ in range(length):
            if chance.random() >= rate:
                break
            kept += 1
        kept += 1  # the target's own token: a correction, or the bonus after full acceptance
    mean = kept / steps
    # Spread of one step is below (length + 1) / 2, so five standard errors of the mean are below this.
    assert expected_tokens.plain(rate, length) == pytest.approx(mean, abs=5 * (length + 1) / 2 / steps**0.5)


@given(RATES, LENGTHS, st.floats(0.001, 0.99))
def test_speedup_is_the_papers_when_the_check_costs_one_step(rate, length, ratio):
    costs = StepCosts(flat(1.0), flat(ratio))
    tokens = expected_tokens.plain(rate, length)
    assert costs.speedup(rate, length, batch=1) == pytest.approx(tokens / (length * ratio + 1), rel=1e-12)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_some_length_pays_exactly_when_acceptance_exceeds_the_cost_ratio(rate, ratio):
    """Corollary 3.9 of the paper: with a free check, acceptance above c pays, by (1 + acceptance) / (1 + c) or more."""
    result = case(acceptance=rate, draft_step=flat(ratio), target_step=flat(1.0))
    if rate > ratio + 1e-9:
        assert result.best_speedup.value >= (1 + rate) / (1 + ratio) * (1 - 1e-12)
    elif rate < ratio - 1e-9:
        assert result.best_length.value == 0 and result.best_speedup.value == 1


@given(LENGTHS, st.floats(0.001, 0.9))
def test_break_even_acceptance_is_where_the_speedup_is_one(length, ratio):
    costs = StepCosts(flat(1.0), flat(ratio))
    rate = break_even_acceptance.plain(1 + length * ratio, length)
    assert costs.speedup(rate, length, 1) == pytest.approx(1, rel=1e-9)
    if length == 1:
        assert rate == pytest.approx(ratio, rel=1e-9)  # 1 + a = 1 + c


def test_reported_rates_of_t5_are_inside_what_the_formula_allows():
    """T5-XXL with T5-small: acceptance 0.75 and 3.4x at temperature 0, 0.62 and 2.6x at 1 (draft length 7).

    The draft's share of the time is not in what we could confirm, so the bound with a free draft is tested; figures as
    restated in test_leviathan_t5_setup of an exo fork, rounded there to two digits.
    """
    for rate, reported in ((0.75, 3.4), (0.62, 2.6)):
        bound = expected_tokens.plain(rate, 7)
        assert reported <= bound + 0.05
        assert reported >= 0.9 * bound


def test_no_acceptance_pays_for_a_draft_as_slow_as_the_target():
    result = case(draft_step=flat(0.030))
    assert result.break_even_acceptance is None
    assert result.best_length.value == 0
    assert "No draft length pays" in result.verdict and "every token" in result.verdict


def test_the_check_is_priced_at_its_own_size():
    """Compute-bound from 100 tokens on: at 64 sequences the check of 5 x 64 tokens costs 3.2 plain steps."""
    target = memory_then_compute(0.020, 0.0002)
    result = case(sequences=64, target_step=target)
    tokens = 1 + 0.8 + 0.64 + 0.512 + 0.4096
    assert result.speedup.value == pytest.approx(tokens * 0.020 / (4 * 0.001 + 0.0002 * 320))
    assert result.speedup.value < 1 < case(sequences=1, target_step=target).speedup.value


def test_slowdown_batch_is_the_first_slower_one():
    costs = StepCosts(memory_then_compute(0.020, 0.0002), flat(0.001))
    found = steps.slowdown_batch(costs, 0.8, 4)
    slower = [batch for batch in range(1, 400) if costs.speedup(0.8, 4, batch) < 1]
    assert found == slower[0]
    assert case(target_step=costs.target, draft_step=costs.draft).slowdown_batch.value == found


def test_no_slowdown_where_steps_cost_the_same_at_every_batch():
    result = case()
    assert result.slowdown_batch is None
    assert all(batch is None for _, batch in result.slowdown_batches)


@given(RATES, RATES, LENGTHS)
def test_more_acceptance_never_slows_down(first, second, length):
    costs = StepCosts(memory_then_compute(0.020, 0.0002), flat(0.001))
    low, high = sorted((first, second))
    assert costs.speedup(low, length, 32) <= costs.speedup(high, length, 32)


def test_table_and_curve_agree_with_the_term():
    target, draft = memory_then_compute(0.020, 0.0002), memory_then_compute(0.001, 0.00001)
    result = case(sequences=16, target_step=target, draft_step=draft)
    cells = {(rate, batch): gain for rate, batch, gain in result.crossover}
    assert cells[0.8, 16] == pytest.approx(result.speedup.value, rel=1e-12)
    assert dict(result.length_curve)[4] == pytest.approx(result.speedup.value, rel=1e-12)
    assert len(cells) == len(steps.TABLE_ACCEPTANCES) * len(steps.TABLE_BATCHES)
    for rate, first in result.slowdown_batches:
        for batch in steps.TABLE_BATCHES:
            assert (cells[rate, batch] < 1) == (first is not None and batch >= first)


def test_terms_explain_themselves():
    weights = fact("Draft weights", 988_065_536, "B", basis="derived", source="test")
    result = case(draft_weights=weights)
    assert result.speedup.substituted == "3.362 × 20 ms ÷ (4 × 1 ms + 20 ms)"
    assert result.draft_weights is weights and result.draft_kv is None
    assert weights in result.terms and None not in result.terms
    assert result.tpot_s.value == pytest.approx(0.020 / result.speedup.value)


@pytest.mark.parametrize(("changes", "field"), [
    ({"acceptance": 1.01}, "acceptance"), ({"acceptance": -0.1}, "acceptance"),
    ({"acceptance": float("nan")}, "acceptance"),
    ({"draft_length": 0}, "draft_length"), ({"sequences": 0}, "sequences")])
def test_values_outside_the_domain_are_refused(changes, field):
    with pytest.raises(InputError) as caught:
        case(**changes)
    assert caught.value.field == field


def prepared(model, *, tensor=1):
    from pycore import catalog
    from pycore.nouns import Parallel
    from pycore.roofline.prepare import prepare

    cache = catalog.kv_format("fp16")
    return prepare(catalog.model(model), catalog.weight_format("bf16"), cache, cache, Parallel(tensor=tensor),
                   catalog.accelerator("h100"), "vllm")


def test_on_the_roofline_a_small_draft_pays_alone_and_not_in_a_crowd():
    """70B on 4 H100 with a 1B draft: memory-bound alone, compute-bound in a crowd (short contexts)."""
    target, draft = (steps.roofline_step(prepared(name, tensor=4), 512) for name in ("llama-3.1-70b", "llama-3.2-1b"))
    alone = size(acceptance=0.8, draft_length=4, sequences=1, target_step=target, draft_step=draft)
    crowd = size(acceptance=0.8, draft_length=4, sequences=1024, target_step=target, draft_step=draft)
    assert alone.speedup.value > 1.5 and crowd.speedup.value < 1
    assert 1 < alone.slowdown_batch.value <= 1024
    assert target(5, 1) < 1.5 * target(1, 1), "alone, checking five tokens costs little more than making one"
    assert target(5 * 1024, 1024) > 2 * target(1024, 1024), "in a crowd it does not"


def test_the_target_as_its_own_draft_never_pays():
    step = steps.roofline_step(prepared("llama-3.2-1b"), 512)
    result = size(acceptance=1.0, draft_length=4, sequences=8, target_step=step, draft_step=step)
    assert result.best_length.value == 0 and result.speedup.value < 1
