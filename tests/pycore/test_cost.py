"""Oracles: closed forms, conservation of money, and the median of the standard library."""

import statistics
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore import catalog
from pycore.cost import Cost, cost, offers
from pycore.cost.prices import choose, place, price_term
from pycore.errors import InputError
from pycore.ledger import fact
from pycore.nouns import Accelerator, ApiOffer, AttentionGroup, CloudPrice, Deployment, Format, Model, Parallel
from pycore.systems.infersize import Query, answer


def deployment(*, devices=1, data=1, prompt=1000, output=250, tdp=350.0):
    model = Model(id="m", name="Model M", hub_repository="o/m", hidden_size=1024, layers=4, attention_heads=8,
                  kv_heads=8, head_dim=128, intermediate_size=4096, vocabulary=32000, tied_embeddings=False,
                  max_context=8192, groups=(AttentionGroup(kind="full", layers=4, query_heads=8, kv_heads=8,
                                                           key_dim=128, value_dim=128),))
    card = Accelerator(id="c", name="Card C", vendor="v", segment="s", architecture="a", year=2024, memory_box_gib=48,
                       memory_usable_mib=46068, memory_usable_basis="test", bandwidth_bytes_per_s=8.64e11,
                       bf16_flops=3.62e14, fp16_flops=3.62e14, fp8_flops=None, int8_ops=None, fp4_flops=None,
                       fp32_flops=None, tdp_w=tdp, link_kind="pcie", link_bytes_per_s_one_way=None,
                       pcie_bytes_per_s_one_way=3.2e10, source="datasheet C")
    kind = Format(id="bf16", name="bf16", family="float", scope="all", bits_per_weight=16.0)
    return Deployment(model=model, weights=kind, keys=kind, values=kind, accelerator=card,
                      parallel=Parallel(tensor=devices // data, data=data), engine="vllm", context=4096, sequences=16,
                      prompt=prompt, output=output)


def offer(provider="p", input_usd=0.2, output_usd=0.6, cached=None, date="", outlier=False):
    return ApiOffer(model="m", provider=provider, input_usd=input_usd, output_usd=output_usd, cached_input_usd=cached,
                    date=date, source="s", outlier=outlier)


def price(usd=1.0, gpus=1.0, date="", cloud="cloud", spot=None):
    return CloudPrice(accelerator="c", cloud=cloud, region="r", instance="i", gpus=gpus, usd_per_gpu_hour=usd,
                      spot_usd_per_gpu_hour=spot, date=date, source="list")


def speed(requests_per_s=1 / 0.35, step=0.016, low=None, high=None):
    """A speed as cost reads it: 16 sequences, answers of 250 tokens: 0.016 s a step are 0.25 s an answer."""
    return SimpleNamespace(
        requests_per_s=fact("Requests", requests_per_s, "requests/s", basis="derived", source="t", low=low, high=high),
        decode_parts=tuple(fact(name, step / 2, "s", basis="derived", source="t") for name in ("Weights", "KV cache")))


def ask(where=None, found=None, **changes) -> Cost:
    return cost(where or deployment(), found or speed(), **(dict(utilisation=0.5, usd_per_gpu_hour=3.6) | changes))


def test_closed_form():
    """3.60 USD/h is 0.001 USD a second, 0.002 a busy one; the prompt takes 0.1 s, the answer 0.25 s of the machine."""
    result = ask()
    assert result.usd_per_million_input.value == pytest.approx(0.002 * 0.1 / 1000 * 1e6)
    assert result.usd_per_million_output.value == pytest.approx(0.002 * 0.25 / 250 * 1e6)
    assert result.usd_per_million_blended.value == pytest.approx(0.002 * 0.35 / 1250 * 1e6)
    assert result.usd_per_million_three_to_one.value == pytest.approx((3 * 0.2 + 2.0) / 4)
    assert result.usd_per_million_cached_input.value == 0
    assert result.prompt_share.value == pytest.approx(100 * 0.1 / 0.35)
    assert result.requests_per_s.value == pytest.approx(1 / 0.35)
    assert result.usd_per_gpu_hour.basis == "given"


def test_prompts_that_ride_along_for_nothing_cost_nothing():
    result = ask(found=speed(requests_per_s=4.0))
    assert result.prompt_share.value == 0 and result.usd_per_million_input.value == 0
    assert result.usd_per_million_output.value == pytest.approx(0.002 / 4 / 250 * 1e6)


@given(st.floats(0.001, 1000), st.floats(1e-6, 10), st.floats(0.01, 1), st.floats(0, 1), st.floats(0.01, 1000),
       st.sampled_from([(1, 1), (8, 1), (8, 2), (4, 4)]), st.integers(1, 100_000), st.integers(1, 100_000))
def test_tokens_of_a_paid_hour_fetch_what_the_hour_costs(rate, step, busy, cached, usd, split, prompt, output):
    devices, data = split
    where = replace(deployment(devices=devices, data=data, prompt=prompt, output=output), cached_share=cached)
    result = cost(where, speed(rate, step), utilisation=busy, usd_per_gpu_hour=usd)
    requests = 3600 * busy * result.requests_per_s.value
    apart = ((prompt - where.cached_tokens) * result.usd_per_million_input.value
             + where.cached_tokens * result.usd_per_million_cached_input.value
             + output * result.usd_per_million_output.value)
    assert requests * apart / 1e6 == pytest.approx(usd * devices, rel=1e-6)
    assert requests * (prompt + output) * result.usd_per_million_blended.value / 1e6 == pytest.approx(usd * devices)
    assert result.requests_per_s.value == pytest.approx(rate)


@given(st.floats(0.01, 1), st.floats(0.01, 1))
def test_price_is_inverse_to_utilisation(first, second):
    low, high = (ask(utilisation=share).usd_per_million_blended.value for share in (first, second))
    assert low * first == pytest.approx(high * second)


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(("vllm", "sglang")), st.integers(1, 64))
def test_more_cache_never_costs_more_nor_takes_longer(first, second, engine, sequences):
    less, more = (answer(Query(cached_share=share, engine=engine, sequences=sequences), with_matrix=False)
                  for share in sorted((first, second)))
    assert more.cost.usd_per_million_blended.value <= less.cost.usd_per_million_blended.value * (1 + 1e-9)
    assert more.speed.prefill_s.value <= less.speed.prefill_s.value * (1 + 1e-9)
    assert more.speed.requests_per_s.value >= less.speed.requests_per_s.value * (1 - 1e-9)


def test_curve_passes_through_the_asked_point_and_staircase_starts_on_it():
    result = ask()
    assert dict(result.curve)[0.5] == pytest.approx(result.usd_per_million_blended.value)
    steps = {demand: (devices, usd) for demand, devices, usd in result.staircase}
    rate = 1250 * result.requests_per_s.value
    busy = dict(result.curve)[1.0]
    assert [devices for devices, _ in steps.values()] == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4
    assert steps[0.5 * rate][1] == pytest.approx(result.usd_per_million_blended.value)
    assert steps[4 * rate][1] == pytest.approx(busy)
    assert steps[1.25 * rate][1] == pytest.approx(busy * 2 / 1.25)


def test_ranges_are_carried_into_the_price():
    result = ask(found=speed(1 / 0.35, low=1 / 0.70, high=1 / 0.175))
    blended = result.usd_per_million_blended
    assert blended.low == pytest.approx(blended.value / 2) and blended.high == pytest.approx(blended.value * 2)
    assert result.usd_per_million_input.high == pytest.approx(2 * result.usd_per_million_input.value)
    assert result.prompt_share.low is None


def test_energy_is_rated_power_for_the_whole_hour():
    result = ask(deployment(devices=2))
    hours = 1e6 / 1250 * 0.35 / 0.5 / 3600
    assert result.energy_upper_bound.value == pytest.approx(2 * 0.35 * hours)
    assert result.energy_upper_bound.unit == "kWh/1M tokens"
    assert ask(deployment(tdp=None)).energy_upper_bound is None


def test_what_is_not_known_is_said_not_made_up():
    result = cost(deployment(tdp=None), speed(), utilisation=0.5)
    assert result.usd_per_gpu_hour is None and result.usd_per_million_blended is None and result.curve == ()
    assert result.break_even_utilisation is None and "no price" in result.break_even
    assert [text.split(":")[0] for text in result.not_known] == ["price", "energy", "API offers"]
    assert result.requests_per_s.value > 0


def test_break_even_utilisation_is_where_both_cost_the_same():
    rows = [offer("a", 0.5, 1.5), offer("b", 1.0, 3.0), offer("c", 2.0, 6.0)]
    result = ask(offers=rows)
    median = (1000 * 1.0 + 250 * 3.0) / 1250
    share = result.break_even_utilisation.value / 100
    assert ask(utilisation=share).usd_per_million_blended.value == pytest.approx(median)
    assert (result.break_even_dearest.value < result.break_even_utilisation.value
            < result.break_even_cheapest.value)
    assert "above" in result.break_even


def test_break_even_that_is_never_reached():
    result = ask(offers=[offer("a", 0.01, 0.02), offer("b", 0.02, 0.04)])
    assert result.break_even_utilisation is None and result.break_even_dearest is None
    assert result.break_even.startswith("Cheaper by API at any utilisation")
    only_dear = ask(offers=[offer("a", 0.01, 0.02), offer("b", 0.02, 0.04), offer("c", 2, 6)])
    assert only_dear.break_even_utilisation is None and only_dear.break_even_dearest is not None
    assert "never the median" in only_dear.break_even


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9))
def test_band_against_the_standard_library(values):
    rows = [offer(f"p{index}", value, value) for index, value in enumerate(values)]
    band = offers.bands(rows, 3, 1, 0.0)[2]
    assert (band.low, band.high) == (min(values), max(values))
    assert band.median == pytest.approx(statistics.median(values))
    assert offers.bands(reversed(rows), 3, 1, 0.0)[2] == band


def test_bands_leave_out_outliers_and_set_cached_prices_apart():
    rows = [offer("a", 1.0, 2.0, cached=0.1, date="2026-09-06"), offer("b", 2.0, 4.0), offer("z", 99, 99, outlier=True),
            offer("free", 0, 0)]
    blended, three, per_input, per_output = offers.bands(rows, 3, 1, 0.5)
    assert three.kind == "blended 3:1" and three.low == pytest.approx(1.25) and three.high == pytest.approx(2.5)
    assert (per_input.low, per_input.high, per_input.cached_low, per_input.cached_high) == (1.0, 2.0, 0.1, 0.1)
    assert (per_output.low_provider, per_output.high_provider) == ("a", "b")
    assert blended.low == pytest.approx((3 * 0.55 + 2) / 4) and blended.cached_high == blended.low
    assert blended.high == pytest.approx(2.5), "b lists no cached price: every token at the full price"
    assert blended.providers == 2 and blended.date == "2026-09-06; some undated"
    assert offers.bands([offer(outlier=True)], 3, 1, 0.0) == ()


def test_price_choice_prefers_a_dated_one():
    old, late, undated = price(0.5, date="2025-03-07"), price(1.9, date="2026-09-06"), price(0.1)
    assert choose([undated, late, old], 1) is old
    assert choose([price(0.5, date="2026-09-06"), old], 1).date == "2026-09-06", "of equal prices the latest"
    assert choose([undated, price(0.2)], 1) is undated
    assert choose([price(None, spot=0.1), price(6.0, gpus=1 / 6)], 1) is None


def test_more_devices_never_cost_more_each():
    for accelerator in catalog.accelerators():
        prices = [choose(catalog.cloud_prices(accelerator.id), count) for count in (1, 2, 4, 8, 16)]
        for fewer, more in zip(prices, prices[1:], strict=False):
            assert fewer is None or not fewer.date or fewer.gpus > 1 or (
                more.usd_per_gpu_hour <= fewer.usd_per_gpu_hour), accelerator.id


def test_price_choice_takes_an_instance_that_can_be_bought_whole():
    eight, one = price(1.0, gpus=8, date="2026-09-06"), price(3.0, date="2026-09-06")
    assert choose([eight, one], 1) is one
    assert choose([eight, one], 8) is eight
    assert "8 at a time" in price_term(0, [eight], 2).note


def test_prices_say_place_and_date():
    dated = price_term(0, [price(date="2026-09-06", cloud="aws")], 1)
    assert dated.basis == "reported" and dated.source.startswith("aws r, i, 2026-09-06") and not dated.note
    undated = price_term(0, [price(cloud="nebius")], 1)
    assert "undated" in undated.source and "stale" in undated.note
    eight = price(5.0, gpus=8, date="2026-09-06")
    assert "over a year older" in price_term(0, [price(date="2025-03-07"), eight], 1).note
    assert price_term(0, [price(date="2025-03-07")], 1).note == ""
    assert place(replace(price(), region="", instance="")) == "cloud (region not stated), undated"


@pytest.mark.parametrize(("changes", "field"), [
    ({"utilisation": 0.0}, "utilisation"), ({"utilisation": 1.1}, "utilisation"),
    ({"utilisation": float("nan")}, "utilisation"), ({"where": replace(deployment(), cached_share=1.5)}, "cached_share")])
def test_shares_outside_their_range_are_refused(changes, field):
    with pytest.raises(InputError) as caught:
        ask(**changes)
    assert caught.value.field == field
