"""Order statistics against numpy's inverted CDF, exact binomial sums and published tables; "n too small" is no number."""

import math
import random
from fractions import Fraction

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore.stats.estimates import TooFew
from pycore.stats.percentiles import interval_ranks, minimum_samples, percentile, rank
from pycore.stats.weighted import Ordered


def test_p99_of_three_is_the_largest_by_rank_and_no_number_by_sample_size():
    """Known defect of other tools: of 10, 20, 30 they call 20 or 29.8 the 99th percentile."""
    assert [10, 20, 30][rank(3, 99) - 1] == 30
    assert percentile([10, 20, 30], 99) == TooFew(n=3, needed=100)
    assert percentile([10, 20, 30], 99).text == "n too small (3; needs 100)"


@pytest.mark.parametrize("percent, needed", [(50, 2), (90, 10), (95, 20), (99, 100), (99.9, 1000), (1, 100)])
def test_percentile_needs_one_sample_beyond_it(percent, needed):
    assert minimum_samples(percent) == needed
    assert isinstance(percentile(range(needed - 1), percent), TooFew)
    assert not isinstance(percentile(range(needed), percent), TooFew)


@given(st.lists(st.integers(-1000, 1000), min_size=100, max_size=400), st.sampled_from([50, 75, 90, 95, 99]))
def test_percentile_is_numpys_inverted_distribution_function(values, percent):
    assert percentile(sorted(values), percent) == numpy.percentile(values, percent, method="inverted_cdf")


def test_rank_is_exact_where_floats_are_not():
    """0.07 x 100 is 7.000000000000001 in floats; its rank is 7. 99.9 % of 1000 is 999."""
    assert (rank(100, 7), rank(1000, 99.9), rank(1000, 57)) == (7, 999, 570)


@pytest.mark.parametrize("percent", [0, 100, -5, 120])
def test_no_percentile_outside_the_open_range(percent):
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile(range(1000), percent)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=30, max_size=80, unique_by=lambda p: p[0]))
def test_weighted_percentile_is_that_of_the_samples_written_out(pairs):
    written = sorted(value for value, count in pairs for _ in range(count))
    ordered = Ordered(pairs)
    for percent in (50, 90, 95, 99):
        assert ordered.percentile(percent) == percentile(written, percent)
    for value in (-1, written[0], written[len(written) // 2], 25, 99):
        assert ordered.at_most(value) == sum(one <= value for one in written)


def exactly_below(count: int, n: int, p: Fraction) -> Fraction:
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(count + 1))


@pytest.mark.parametrize("n", [20, 72, 73, 100, 367, 368, 500])
@pytest.mark.parametrize("percent", [50, 95, 99])
def test_interval_ranks_are_the_tightest_that_give_each_tail_its_share(n, percent):
    """Against exact binomial sums in fractions: no tail above 2.5 %, and one rank further in there would be more."""
    p, tail = Fraction(percent, 100), Fraction(25, 1000)
    lower, upper = interval_ranks(n, percent)
    if lower is None:
        assert exactly_below(0, n, p) > tail
    else:
        assert exactly_below(lower - 1, n, p) <= tail < exactly_below(lower, n, p)
    if upper is None:
        assert 1 - exactly_below(n - 1, n, p) > tail
    else:
        assert 1 - exactly_below(upper - 1, n, p) <= tail < 1 - exactly_below(upper - 2, n, p)


def test_published_ranks_of_the_median():
    """Conover 1999, Practical Nonparametric Statistics, section 3.2: 95 % of n = 20 is X(6) to X(15)."""
    assert interval_ranks(20, 50) == (6, 15)


def test_upper_bound_of_p99_takes_368_samples_and_of_p95_72_or_more():
    assert interval_ranks(367, 99)[1] is None and interval_ranks(368, 99)[1] == 368
    assert interval_ranks(71, 95)[1] is None and interval_ranks(72, 95)[1] == 72


def test_interval_covers_for_independent_samples_of_a_skewed_distribution():
    generator, held, runs = random.Random(4), 0, 1000
    for _ in range(runs):
        ordered = sorted(generator.lognormvariate(0, 2) for _ in range(200))
        lower, upper = interval_ranks(200, 90)
        held += ordered[lower - 1] <= math.exp(2 * 1.2815515655446004) < ordered[upper - 1]
    assert 0.945 <= held / runs <= 0.985, "nominal 95 %; discreteness makes it a little more"
