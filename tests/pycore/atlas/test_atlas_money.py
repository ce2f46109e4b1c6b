"""Prices, ranking of models and the bill: who may be priced, what a mix costs, flips, and what is refused."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore import catalog
from pycore.atlas import bill as bills
from pycore.atlas import prices, ranking, table
from pycore.atlas.languages import ENGLISH, languages
from pycore.errors import InputError, UnknownName

MIX = st.dictionaries(st.sampled_from([one.code for one in languages()]), st.integers(1, 1000), min_size=1, max_size=6)


def priced(name: str, tokenizer: str, into: float, out: float) -> prices.Priced:
    return prices.Priced(model=name, tokenizer=tokenizer, input_usd=into, output_usd=out, provider="", date="", source="")


def test_only_models_whose_tokenizer_was_run_are_priced_unless_asked():
    assert all(one.exact and table.tokenizer(one.tokenizer).exact for one in prices.list_prices())
    assert {one.model for one in prices.list_prices(True)} - {one.model for one in prices.list_prices()} == {
        "Claude Haiku 4.5", "Claude Sonnet 4.5", "Claude Sonnet 4.6", "Claude Opus 4.5", "Claude Opus 4.6"}
    assert all(model.evidence and model.tokenizer in {one.name for one in table.tokenizers()} for model in prices.models())


def test_a_list_price_is_one_that_the_catalogue_has_and_dated_ones_go_first():
    for model in prices.models():
        offers = prices.offers_of(model)
        found = next(one for one in prices.list_prices(True) if one.model == model.name)
        assert (found.input_usd, found.output_usd, found.provider, found.date) in {
            (offer.input_usd, offer.output_usd, offer.provider, offer.date) for offer in offers}
        assert len({bool(offer.date) for offer in offers}) == 1
        if not model.offers.startswith("closed:") and any(offer.date and not offer.outlier
                                                          for offer in catalog.api_offers(model.offers)):
            assert found.date
        assert found.price("input").basis == "reported" and (found.date or prices.UNDATED) in found.price("input").source


@pytest.mark.parametrize("text, expected", [
    ("gpt-4o 2.5 10", [("GPT-4o", "o200k_base", 2.5, 10)]),
    ("mine:llama3 0.2 0.4, GPT-5 mini 1", [("mine", "llama3", 0.2, 0.4), ("GPT-5 mini", "o200k_base", 1, 1)]),
    ("gemma3 0.1 0.2", [("gemma3", "gemma3", 0.1, 0.2)]), ("", [])])
def test_own_prices(text, expected):
    found = prices.own_prices(text)
    assert [(one.model, one.tokenizer, one.input_usd, one.output_usd) for one in found] == expected
    assert all(one.price("output").basis == "given" for one in found)


@pytest.mark.parametrize("text", ["gpt-4o", "gpt-4o two", "gpt-4o -1 2", "gpt-4o nan 2", "gpt-4o 1e9 2", "2.5 10", "x:nothing 1 2",
                                  "unknown model 1 2", "gpt-4o inf 1", ":: 1 2"])
def test_bad_prices_are_refused_in_words(text):
    with pytest.raises(InputError) as caught:
        prices.own_prices(text)
    assert caught.value.field == "prices"


@given(st.text(max_size=60))
def test_any_text_is_prices_or_refused(text):
    try:
        prices.own_prices(text)
    except InputError as fault:
        assert fault.field == "prices"


def test_a_name_that_means_several_models_is_refused_with_them():
    with pytest.raises(UnknownName) as caught:
        prices.list_price("claude opus")
    assert "Claude Opus 4.5" in caught.value.suggestions


@pytest.mark.parametrize("text, shares", [
    ("english 60, hindi 25, tamil 15", [("eng_Latn", 0.6), ("hin_Deva", 0.25), ("tam_Taml", 0.15)]),
    ("en, hi", [("eng_Latn", 0.5), ("hin_Deva", 0.5)]), ("hi=3, ta=1", [("hin_Deva", 0.75), ("tam_Taml", 0.25)]),
    ("hindi 50%, english 50 %", None), ("swahili: 1", [("swh_Latn", 1.0)])])
def test_a_mix_in_any_scale(text, shares):
    if shares is None:
        with pytest.raises(InputError):
            bills.parse_mix(text)
        return
    assert [(one.language.code, one.share) for one in bills.parse_mix(text)] == [
        (code, pytest.approx(share)) for code, share in shares]


@pytest.mark.parametrize("text", ["", ",", "klingon 5", "hindi 5, hi 5", "hindi -1", "hindi 0", "hindi nan", "hindi 1e300"])
def test_bad_mixes_are_refused_in_words(text):
    with pytest.raises(InputError) as caught:
        bills.parse_mix(text)
    assert caught.value.field == "mix"


@given(st.text(max_size=60))
def test_any_text_is_a_mix_or_refused(text):
    try:
        assert math.fsum(one.share for one in bills.parse_mix(text)) == pytest.approx(1)
    except InputError as fault:
        assert fault.field == "mix"


def test_a_bill_by_hand():
    """1,000 requests, half English half Hindi, 100 words in and 10 out, GPT-4o's tokenizer at 2.5 and 10 USD."""
    found = bills.bill(bills.parse_mix("en 1, hi 1"), requests=1000, prompt_words=100, output_words=10,
                       prices=(priced("m", "o200k_base", 2.5, 10),))
    english, hindi = (500 * (100 * tokens / 42855 * 2.5 + 10 * tokens / 42855 * 10) / 1e6 for tokens in (52409, 82569))
    only = found.models[0]
    assert [line.cost.value for line in only.lines] == [pytest.approx(english), pytest.approx(hindi)]
    assert only.cost.value == pytest.approx(english + hindi)
    assert only.tax.value == pytest.approx((english + hindi) / (2 * english))
    assert only.lines[0].tax.value == 1 and only.lines[1].tax.value == pytest.approx(82569 / 52409)
    assert only.lines[1].input_tokens.value == pytest.approx(500 * 100 * 82569 / 42855)


@settings(max_examples=25)
@given(MIX, st.integers(1, 10**9), st.integers(0, 10**5), st.integers(0, 10**5))
def test_bills_add_up(weights, requests, prompt, output):
    mix = bills.parse_mix(", ".join(f"{code} {weight}" for code, weight in weights.items()))
    found = bills.bill(mix, requests=requests, prompt_words=prompt, output_words=output)
    assert [one.cost.value for one in found.models] == sorted(one.cost.value for one in found.models)
    assert len(found.models) == len(prices.list_prices()) and [one.language.code for one in found.cheapest] == list(weights)
    for one in found.models:
        assert one.cost.value == pytest.approx(math.fsum(line.cost.value for line in one.lines))
        assert math.fsum(line.requests.value for line in one.lines) == pytest.approx(requests)
        low, high = min(line.tax.value for line in one.lines), max(line.tax.value for line in one.lines)
        assert low - 1e-9 <= one.tax.value <= high + 1e-9  # a mean of its lines' taxes, weighted by English cost


def test_without_a_price_there_is_no_bill():
    with pytest.raises(InputError, match="at least one price"):
        bills.bill(bills.parse_mix("en"), requests=1, prompt_words=1, output_words=1, prices=())


def test_a_flip_by_hand():
    """llama3 a tenth cheaper a token; Tamil takes 7.6 times English under it and 2.0 times under o200k_base."""
    offers = (priced("a", "llama3", 0.9, 0.9), priced("b", "o200k_base", 1.0, 1.0), priced("c", "gemma3", 5.0, 5.0))
    english = ranking.models_by_cost(ENGLISH, prices=offers)
    tamil = ranking.models_by_cost("tam_Taml", prices=offers)
    assert [one.priced.model for one in english] == ["a", "b", "c"] and not any(one.flips for one in english)
    assert [one.priced.model for one in tamil] == ["b", "a", "c"]
    assert {one.priced.model: one.flips for one in tamil} == {"b": ("a",), "a": ("b",), "c": ()}
    assert [(one.rank, one.english_rank) for one in tamil] == [(1, 2), (2, 1), (3, 3)]


@given(st.sampled_from([one.code for one in languages()]), st.integers(0, 10**5), st.integers(0, 10**5))
def test_ranking_is_by_cost_and_flips_are_mutual(code, prompt, output):
    found = {one.priced.model: one for one in ranking.models_by_cost(code, prompt_words=prompt, output_words=output)}
    assert [one.rank for one in found.values()] == list(range(1, len(found) + 1))
    assert sorted(one.english_rank for one in found.values()) == list(range(1, len(found) + 1))
    costs = [one.cost.value for one in found.values()]
    assert costs == sorted(costs)
    for name, one in found.items():
        for other in one.flips:
            assert name in found[other].flips
            assert (one.rank < found[other].rank) != (one.english_rank < found[other].english_rank)


def test_tokenizers_are_ranked_by_each_statistic():
    for statistic in ranking.STATISTICS:
        found = ranking.tokenizers_by(statistic)
        assert [one.rank for one in found] == list(range(1, 10)) and [one.value for one in found] == sorted(
            one.value for one in found)
        for one in found:
            assert one.low <= one.value <= one.high and one.rank_low <= one.rank <= one.rank_high
            assert bool(one.language) == statistic.endswith("worst")
            if one.language:
                worst = max(languages(), key=lambda each: table.row(each.code, one.tokenizer).tokens)
                assert worst.code == one.language
