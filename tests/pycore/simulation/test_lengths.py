"""Lengths: the mean asked for is the mean drawn, quantiles are the quantiles, and limits say what they cut."""

import math
import statistics
from random import Random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore.errors import InputError
from pycore.serving.request import Request
from pycore.simulation.clipping import fit
from pycore.simulation.lengths import Empirical, Fixed, Lognormal, Uniform, lengths, rows_sampler

DRAWS = 40_000


def drawn(text: str, count: int = DRAWS, seed: int = 6) -> list[int]:
    sample = lengths(text, "prompt").sampler(Random(seed))
    return [sample() for _ in range(count)]


@pytest.mark.parametrize(("text", "mean"), [
    ("lognormal:1024", 1024), ("lognormal:1024,p90=2048", 1024), ("lognormal:1155,p50=1020", 1155), ("lognormal:211,p50=129", 211),
    ("lognormal:28,p50=13", 28), ("lognormal:2500,p50=2000", 2500), ("uniform:100-300", 200), ("512", 512), ("fixed:2k", 2048)])
def test_the_mean_asked_for_is_the_mean_drawn(text, mean):
    """A peer passes its "mean" to random.triangular as the mode: 2,500 asked for, 3,167 drawn."""
    sample = drawn(text)
    error = 4 * statistics.pstdev(sample) / math.sqrt(len(sample))
    assert abs(statistics.fmean(sample) - mean) <= error + 0.05, "four standard errors, and the rounding up of draws below 1"


def test_the_peers_mean_would_be_caught():
    low, mode, high = 1_000, 2_500, 6_000
    rng = Random(6)
    wrong = [round(rng.triangular(low, high, mode)) for _ in range(DRAWS)]
    assert statistics.fmean(wrong) == pytest.approx(3_167, rel=0.01)
    assert abs(statistics.fmean(wrong) - 2_500) > 4 * statistics.pstdev(wrong) / math.sqrt(DRAWS)


@pytest.mark.parametrize(("text", "p50", "p90"), [
    ("lognormal:1024,p90=2048", None, 2048), ("lognormal:1155,p50=1020", 1020, None), ("lognormal:p50=700,p90=2048", 700, 2048),
    ("lognormal:p50=1020,p90=2735", 1020, 2735), ("lognormal:211", 129, None)])
def test_quantiles_asked_for_are_those_drawn(text, p50, p90):
    """Share of draws at or below each quantile within four standard errors of 50 % and 90 %."""
    sample = drawn(text)
    for share, value in ((0.5, p50), (0.9, p90)):
        if value is not None:
            below = sum(tokens < value for tokens in sample) + 0.5 * sum(tokens == value for tokens in sample)
            assert abs(below / DRAWS - share) < 4 * math.sqrt(share * (1 - share) / DRAWS) + 1e-9


def test_a_lognormal_is_the_standard_librarys_normal_of_its_logarithm():
    one = lengths("lognormal:1155,p50=1020", "prompt")
    normal = NormalDist(math.log(1020), one.sigma)
    sample = sorted(drawn(one.text))
    apart = max(abs((index + 0.5) / DRAWS - normal.cdf(math.log(value))) for index, value in enumerate(sample))
    assert apart * math.sqrt(DRAWS) < 1.628
    assert math.exp(normal.mean + normal.variance / 2) == pytest.approx(1155)


def test_uniform_draws_every_value_equally_often():
    sample = drawn("uniform:3-12")
    expected = DRAWS / 10
    assert sorted(set(sample)) == list(range(3, 13))
    squares = sum((sample.count(value) - expected) ** 2 / expected for value in range(3, 13))
    assert squares < 21.67, "chi-squared with 9 degrees of freedom at 1 %"


def test_rows_of_a_trace_are_drawn_whole():
    rows = [(100, 1), (200, 2), (300, 3)]
    sample = rows_sampler(rows, Random(1))
    found = [sample() for _ in range(3_000)]
    assert set(found) == set(rows)
    assert all(found.count(row) == pytest.approx(1_000, rel=0.15) for row in rows)


@given(st.one_of(
    st.builds(Fixed, tokens=st.integers(1, 10_000_000)),
    st.tuples(st.integers(1, 5_000), st.integers(0, 5_000)).map(lambda pair: Uniform(low=pair[0], high=sum(pair))),
    st.tuples(st.floats(1, 1e5), st.floats(1, 20)).map(lambda pair: Lognormal(p50=pair[0], p90=pair[0] * pair[1])),
    st.tuples(st.floats(30, 1e5), st.floats(0.05, 1)).map(lambda pair: Lognormal(mean=pair[0], p50=pair[0] * pair[1])),
    st.tuples(st.floats(1, 1e5), st.floats(1, 2.27)).map(lambda pair: Lognormal(mean=pair[0], p90=pair[0] * pair[1])),
    st.floats(1, 1e5).map(lambda mean: Lognormal(mean=mean)), st.just(Empirical(trace="azure-code"))))
def test_text_and_back(distribution):
    assert lengths(distribution.text, "prompt") == distribution


@pytest.mark.parametrize("text", [
    "", "0", "-5", "nan", "1e3", "12.5", "fixed:", "fixed:0", "uniform:5", "uniform:9-3", "uniform:0-5", "lognormal:", "lognormal:0",
    "lognormal:inf", "lognormal:100,p50=200", "lognormal:1024,p90=2700", "lognormal:1024,p90=900", "lognormal:p50=5", "lognormal:p90=5",
    "lognormal:1,p50=1,p90=1", "lognormal:1,mode=3", "lognormal:p50=9,p90=3", "lognormal:10000,p50=1", "trace:", "trace:../x",
    "normal:5", "<script>", "99999999999", "1 000"])
def test_what_is_no_length_is_refused_with_what_is_accepted(text):
    with pytest.raises(InputError, match="prompt: .*accepted"):
        lengths(text, "prompt")


def test_a_p90_that_no_lognormal_of_this_mean_has_is_refused_with_the_range():
    """p90 / mean = exp(z sigma - sigma^2 / 2) is at most exp(z^2 / 2) = 2.273, z = 1.2816."""
    with pytest.raises(InputError, match="from 1024 to 2328"):
        lengths("lognormal:1024,p90=2700", "prompt")
    assert lengths("lognormal:1024,p90=2327", "prompt").sigma == pytest.approx(1.26, abs=0.03)


def request(name: str, prompt: int, output: int, **more) -> Request:
    return Request(id=name, arrival_ns=0, prompt_tokens=prompt, output_tokens=output, **more)


REQUESTS = (request("a", 100, 50), request("b", 900, 200, predicted_output=200, prefix_hashes=tuple(range(68))),
            request("c", 5_000, 10, prefix_hashes=tuple(range(312)), token_ids=tuple(range(5_000))))


def test_limits_cut_the_output_first_and_long_prompts_to_leave_one_token_and_say_so():
    kept, cut = fit(REQUESTS, 1_000, "clip")
    assert [(one.prompt_tokens, one.output_tokens) for one in kept] == [(100, 50), (900, 100), (999, 1)]
    assert (cut.prompts, cut.outputs, cut.prompt_tokens, cut.output_tokens, cut.ids) == (1, 2, 4_001, 109, ("b", "c"))
    assert "1 prompts (-4,001 tokens) and 2 outputs (-109 tokens) of 3 requests" in cut.text
    assert kept[1].predicted_output == 100 and len(kept[1].prefix_hashes) == 1_000 // 16
    assert len(kept[2].token_ids) == 999 and len(kept[2].prefix_hashes) == 999 // 16


def test_limits_refuse_by_name():
    with pytest.raises(InputError, match=r"2 of 3 requests.*at most 1,000 tokens; too long: b \(900 \+ 200\), c \(5,000 \+ 10\)"):
        fit(REQUESTS, 1_000, "refuse")


def test_limits_keep_what_fits_and_keep_all_when_asked():
    for oversize in ("keep", "clip", "refuse"):
        kept, cut = fit(REQUESTS, 10_000, oversize)
        assert kept == REQUESTS and cut.text == ""
    assert fit(REQUESTS, 1_000)[0] == REQUESTS


@pytest.mark.parametrize(("limit", "oversize"), [(1, "clip"), (0, "keep"), (-5, "clip"), (1_000, "cut")])
def test_limits_that_make_no_sense_are_refused(limit, oversize):
    with pytest.raises(InputError, match="accepted"):
        fit(REQUESTS, limit, oversize)


@given(sizes=st.lists(st.tuples(st.integers(1, 3_000), st.integers(1, 3_000)), min_size=1, max_size=20), limit=st.integers(2, 4_000))
def test_nothing_is_longer_than_the_limit_and_the_account_adds_up(sizes, limit):
    requests = [request(str(index), *size) for index, size in enumerate(sizes)]
    kept, cut = fit(requests, limit, "clip")
    assert all(one.prompt_tokens + one.output_tokens <= limit and one.prompt_tokens >= 1 <= one.output_tokens for one in kept)
    assert sum(prompt for prompt, _ in sizes) - sum(one.prompt_tokens for one in kept) == cut.prompt_tokens
    assert sum(output for _, output in sizes) - sum(one.output_tokens for one in kept) == cut.output_tokens
    assert bool(cut.text) == any(sum(size) > limit for size in sizes)
