"""Scene (c): what comes out follows the target exactly, shown by fractions and by counting; measured rates meet the formula."""

from fractions import Fraction

import pytest

from pycore.errors import InputError
from pycore.scenes import bigrams
from pycore.scenes.bigrams import TEMPERATURES, WORDS, acceptance, draft, residual, target
from pycore.scenes.drafting import Pair, below, run
from pycore.scenes.waterfall import waterfall
from pycore.systems import infersize
from pycore.systems.mini_infer import Query, answer

SIMILARITIES = (0, 10, 50, 90, 100)


def quantile(freedom: int) -> float:
    """99.99 % of chi-square lies below it (Wilson and Hilferty 1931); 33.7 at 9 degrees, as tables say."""
    part = 2 / (9 * freedom)
    return freedom * (1 - part + 3.719 * part**0.5) ** 3


def chances(found) -> list[Fraction]:
    return [Fraction(weight, found.total) for weight in found.weights]


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_guess_and_its_replacement_together_follow_the_target_exactly(temperature, similarity):
    """Theorem 1 of Chen et al. 2023 (arXiv 2302.01318), in fractions: sum over q x min(1, p/q), and the rest of the mass."""
    for before in range(len(WORDS)):
        p, q = chances(target(before, temperature)), chances(draft(before, temperature, similarity))
        assert sum(p) == sum(q) == 1
        kept = [min(mine, other) for mine, other in zip(p, q, strict=True)]
        refused = 1 - sum(kept)
        if p == q:
            assert not refused
            continue
        rest = chances(residual(before, temperature, similarity))
        assert [one + refused * other for one, other in zip(kept, rest, strict=True)] == p
        assert Fraction(*acceptance(before, temperature, similarity)) == sum(kept)
        distance = sum(abs(mine - other) for mine, other in zip(p, q, strict=True)) / 2
        assert sum(kept) == 1 - distance  # corollary 3.6 of Leviathan et al.: one minus the total variation


@pytest.mark.parametrize(("temperature", "similarity", "length"), [("1", 60, 4), ("2", 0, 3), ("0.5", 80, 6), ("4", 30, 2)])
def test_what_comes_out_follows_the_target_by_counting(temperature, similarity, length):
    """Which word follows which in a long speculated text, against the target's chances: chi-square of every context."""
    _, steps = run(Pair(temperature, similarity), length, 7, 3000, shown=3000)
    text = ["the", *(token for step in steps for token in step.tokens)]
    pairs: dict[str, list[str]] = {}
    for before, after in zip(text, text[1:], strict=False):
        pairs.setdefault(before, []).append(after)
    checked = 0
    for before, after in pairs.items():
        p = target(WORDS.index(before), temperature)
        expected = {word: len(after) * p.chance(place) for place, word in enumerate(WORDS)}
        often = [word for word in WORDS if expected[word] >= 5]
        rest = len(after) - sum(expected[word] for word in often)
        cells = [(after.count(word), expected[word]) for word in often]
        if rest >= 5:
            cells.append((sum(word not in often for word in after), rest))
        if len(cells) > 1:
            checked += 1
            assert sum((seen - due) ** 2 / due for seen, due in cells) < quantile(len(cells) - 1)
    assert checked >= 5


def test_greedy_text_is_the_same_with_and_without_guesses():
    for similarity in SIMILARITIES:
        found = waterfall(draft_tokens=4, similarity=similarity, temperature="0", seed=1, steps=12, block_size=4)
        text = [WORDS.index(token) for token in found.text]
        for before, after in zip(text[1:], text[2:], strict=False):
            p = target(before, "0")
            assert p.weights[after] == p.total == 1


@pytest.mark.parametrize("similarity", (20, 50, 80, 95))
@pytest.mark.parametrize("length", (1, 3, 6))
def test_measured_rates_meet_the_closed_form(similarity, length):
    found = waterfall(draft_tokens=length, similarity=similarity, temperature="1", seed=3, steps=2, block_size=4)
    rate = found.acceptance.value
    assert found.expected.value == pytest.approx((1 - rate ** (length + 1)) / (1 - rate))
    assert found.measured.value == pytest.approx(found.expected.value, rel=0.03)
    # 400 steps: some hundreds of guesses at least, so within four standard errors of the exact mean
    assert abs(rate - found.exact.value) < 4 * (rate * (1 - rate) / 400) ** 0.5
    assert found.wasted_share.value == pytest.approx(100 * (1 - found.measured.value / (length + 1)))


def test_a_draft_that_is_the_target_wastes_nothing_and_one_that_is_not_wastes_something():
    same = waterfall(draft_tokens=4, similarity=100, temperature="1", seed=1, steps=5, block_size=4)
    assert same.acceptance.value == 1 and same.measured.value == 5 and same.wasted_share.value == 0
    assert waterfall(draft_tokens=4, similarity=0, temperature="1", seed=1, steps=5, block_size=4).wasted_share.value > 50


def test_every_step_adds_up():
    found = waterfall(draft_tokens=5, similarity=50, temperature="1", seed=2, steps=40, block_size=4)
    for step in found.steps:
        assert step.kept + step.wasted == step.computed == 6 and step.kept == len(step.tokens)
        verdicts = [guess.verdict for guess in step.guesses]
        assert verdicts == (["accepted"] * step.accepted + ["rejected"] * (step.accepted < 5)
                            + ["not reached"] * (4 - step.accepted))
        for guess in step.guesses:
            assert guess.chance == pytest.approx(min(1, guess.p / guess.q))
            if guess.draw is not None:
                assert (guess.draw < guess.chance) == (guess.verdict == "accepted")
        assert (step.source == "bonus") == (step.accepted == 5)
    whole = found.text
    assert whole[-len(found.steps[-1].tokens):] == found.steps[-1].tokens and found.steps[1].before == whole[:2 + found.steps[
        0].kept][-6:]


def test_the_curve_rises_with_the_length_and_stays_by_the_formula():
    curve = waterfall(draft_tokens=4, similarity=70, temperature="1", seed=1, steps=1, block_size=4).curve
    assert [rung.draft_tokens for rung in curve] == list(range(1, 17))
    for rung, longer in zip(curve, curve[1:], strict=False):
        assert rung.measured.value <= 1.05 * longer.measured.value and rung.expected < longer.expected
    assert all(rung.measured.value == pytest.approx(rung.expected, rel=0.15) for rung in curve[:8])


@pytest.mark.parametrize("draft_tokens", [1, 4, 16])
def test_tokens_a_step_of_the_asked_length_are_one_value_wherever_they_stand(draft_tokens):
    found = answer(Query(scene="speculation", draft_tokens=draft_tokens))
    assert found.waterfall.curve[draft_tokens - 1].measured.value == found.waterfall.measured.value
    assert found.break_even.speculation.expected_tokens.value == found.waterfall.measured.value


def test_the_pool_holds_guesses_until_they_are_rolled_back():
    found = answer(Query(scene="speculation", block_size=4))
    film, steps = found.film, found.waterfall.steps
    assert len(film.frames) == len(steps) == found.count and film.first_broken() is None
    kept = 2
    for frame, step in zip(film.frames, steps, strict=True):
        filled = sum(block.filled for block in frame.blocks if block.references)
        assert filled == kept + 4  # what was known, and the guesses after it
        words = [token for block in sorted(frame.blocks, key=lambda one: frame.tables[0].blocks.index(one.block)
                                           if one.references else 999) if block.references for token in block.tokens]
        assert words[kept:] == [guess.token for guess in step.guesses]
        work, = frame.work
        assert work.drafts == 4 and work.tokens == step.tokens and work.count == step.computed
        kept += step.kept
    assert film.texts[0].output[-len(steps[-1].tokens):] == steps[-1].tokens


def test_what_it_is_worth_on_a_card():
    found = answer(Query(scene="speculation", model="llama-3.3-70b", gpu="h100", draft_model="llama-3.2-1b", batch=1))
    gains = [gain for _, gain in found.break_even.batches]
    assert gains[0] > 1 and gains[0] == max(gains)
    assert found.break_even.speculation.speedup.value == pytest.approx(gains[0])


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_the_speed_up_follows_the_tokens_a_step_that_were_measured(temperature):
    found = answer(Query(scene="speculation", temperature=temperature))
    worth, measured = found.break_even.speculation, [1.0, *(rung.measured.value for rung in found.waterfall.curve)]
    step = found.waterfall.measured.value / worth.speedup.value  # what a step costs in plain ones, whatever it keeps
    closed = found.waterfall.expected.value / step
    assert temperature == "1" or worth.speedup.value > 1.2 * closed
    assert dict(found.break_even.batches)[8] == pytest.approx(worth.speedup.value)
    assert len(worth.length_curve) == len(measured) and worth.best_speedup.value == max(gain for _, gain in worth.length_curve)
    assert worth.length_curve[4][1] == pytest.approx(measured[4] / step)


def test_batches_that_do_not_fit_are_no_part_of_the_sentence():
    """8B and 1B weights leave a 24 GB card room for a dozen contexts of 2,048 tokens: infersize says how many."""
    found = answer(Query(scene="speculation")).break_even
    asked = infersize.Query(model="llama-3.1-8b", gpu="rtx 4090", draft_model="llama-3.2-1b", sequences=8, context=2048,
                            prompt=1024, output=1024)
    most = infersize.answer(asked, with_matrix=False).capacity.max_sequences
    assert found.most.value == most.value and 1 <= most.value < 64 and found.most in answer(Query(scene="speculation")).terms
    assert f"{most.value:,} sequences fit; it pays at every batch of those." in found.speculation.verdict
    assert "4,096" not in found.speculation.verdict


def test_a_batch_that_does_not_fit_and_a_card_that_holds_none_are_said():
    many = answer(Query(scene="speculation", batch=64)).break_even
    assert many.speculation.verdict.startswith("64 sequences of this context do not fit. ")
    none = answer(Query(scene="speculation", model="llama-3.3-70b", gpu="h100")).break_even
    assert none.most.value == 0 and none.speculation.verdict.startswith("Not one sequence of this context fits")


@pytest.mark.parametrize("context", [131073, 1 << 20])
def test_a_context_beyond_the_models_is_refused_by_name(context):
    with pytest.raises(InputError, match="131,072 tokens that Llama 3.1 8B was made for") as caught:
        answer(Query(scene="speculation", context=context))
    assert caught.value.field == "context"


def test_draws_are_even_and_below_their_limit():
    found = [below(10, 5, step, place) for step in range(400) for place in range(5)]
    assert set(found) == set(range(10))
    assert sum((found.count(one) - 200) ** 2 / 200 for one in range(10)) < quantile(9)


def test_temperatures_are_powers_in_whole_numbers():
    weights = [1, 41, 81]
    assert bigrams.tempered(weights, "0") == [0, 0, 1] and bigrams.tempered(weights, "0.5") == [1, 1681, 6561]
    for temperature, power in (("2", 0.5), ("4", 0.25)):
        found = bigrams.tempered(weights, temperature)
        assert [one / found[0] for one in found] == pytest.approx([weight**power for weight in weights], rel=1e-4)
