"""Published quantiles, exact sums, Newcombe's table of Wilson intervals."""

import math

import pytest

from pycore.stats.distributions import binomial_below, incomplete_beta, normal_quantile, student_quantile
from pycore.stats.shares import wilson

STUDENT_975 = {1: 12.706, 2: 4.303, 5: 2.571, 10: 2.228, 11: 2.201, 15: 2.131, 19: 2.093, 30: 2.042, 60: 2.000, 120: 1.980}


@pytest.mark.parametrize("freedom, expected", STUDENT_975.items())
def test_student_quantiles_are_those_of_the_printed_tables(freedom, expected):
    """Eleven degrees of freedom need 2.201: a table that ends at ten and goes on with 1.96 is a known defect."""
    assert student_quantile(0.975, freedom) == pytest.approx(expected, abs=5e-4)
    assert student_quantile(0.025, freedom) == -student_quantile(0.975, freedom)


def test_student_tends_to_the_normal():
    assert student_quantile(0.975, 1e6) == pytest.approx(normal_quantile(0.975), rel=1e-5) == pytest.approx(1.959964)


@pytest.mark.parametrize("n, p", [(10, 0.5), (50, 0.95), (400, 0.99)])
def test_binomial_sums(n, p):
    for count in range(-1, n + 2, max(1, n // 13)):
        exact = math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(count + 1))
        assert binomial_below(count, n, p) == pytest.approx(min(exact, 1.0), abs=1e-11)


def test_binomial_of_a_large_number_is_nearly_normal():
    n, p = 4_000_000, 0.99
    spread = math.sqrt(n * p * (1 - p))
    assert binomial_below(round(n * p + 1.959964 * spread), n, p) == pytest.approx(0.975, abs=2e-3)


@pytest.mark.parametrize("x", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_incomplete_beta_in_closed_form(x):
    """I_x(1, b) = 1 - (1 - x)^b and I_x(a, 1) = x^a (DLMF 8.17)."""
    assert incomplete_beta(1, 3.5, x) == pytest.approx(1 - (1 - x) ** 3.5, abs=1e-13)
    assert incomplete_beta(2.5, 1, x) == pytest.approx(x**2.5, abs=1e-13)


@pytest.mark.parametrize("successes, n, low, high", [
    (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)])
def test_wilson_is_that_of_newcombes_table(successes, n, low, high):
    """Newcombe 1998, Stat. Med. 17, table I, method 3."""
    assert wilson(successes, n) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_wilson_ends_at_nought_and_one():
    assert wilson(0, 50)[0] == 0.0 and wilson(50, 50)[1] == 1.0
    with pytest.raises(ValueError, match="is not a share"):
        wilson(3, 2)
