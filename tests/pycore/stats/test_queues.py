"""Lindley's recursion against the closed forms, within the intervals of this package; and what has no long-run value."""

import math
import random

import pytest
from queue_runs import changing_load, correlation_time, md1_waits, mm1_sojourns

from pycore.errors import InputError
from pycore.stats.batches import batch_means
from pycore.stats.describe import describe
from pycore.stats.estimates import TooFew
from pycore.stats.queues import load, md1_wait, mm1_sojourn, mm1_sojourn_quantile, mm1_wait
from pycore.stats.stationarity import kendall, stationarity
from pycore.stats.weighted import describe_weighted


@pytest.mark.parametrize("arrivals", [0.5, 0.8])
def test_mm1_sojourns_lie_where_the_closed_form_says(arrivals):
    described = describe(mm1_sojourns(arrivals, round(400 * correlation_time(arrivals)), 7), (50, 95))
    mean, p95 = mm1_sojourn(arrivals, 1.0).value, mm1_sojourn_quantile(arrivals, 1.0, 0.95).value
    assert described.mean.low <= mean <= described.mean.high
    assert described.percentiles[95].low <= p95 <= described.percentiles[95].high
    assert described.mean.high - described.mean.low < 0.5 * mean, "and the interval says something"


@pytest.mark.parametrize("arrivals", [0.5, 0.8])
def test_md1_waits_half_as_long_as_mm1(arrivals):
    """Pollaczek and Khinchine: without variance of service, half the wait."""
    closed = md1_wait(arrivals, 1.0).value
    assert closed == pytest.approx(mm1_wait(arrivals, 1.0).value / 2)
    waits = describe(md1_waits(arrivals, 40_000, 3), ()).mean
    assert waits.low <= closed <= waits.high
    assert not waits.low <= mm1_wait(arrivals, 1.0).value <= waits.high, "the interval tells the two queues apart"


def test_closed_forms_agree_with_each_other():
    """Time in system = wait + service; the median of an exponential is ln 2 of its mean; load = arrivals x service."""
    assert mm1_sojourn(3.0, 4.0).value == pytest.approx(mm1_wait(3.0, 4.0).value + 1 / 4)
    assert mm1_sojourn_quantile(3.0, 4.0, 0.5).value == pytest.approx(math.log(2))
    assert load(3.0, 4.0).value == 0.75


@pytest.mark.parametrize("arrivals, services", [(1.0, 1.0), (2.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0)])
def test_a_queue_that_never_settles_is_refused(arrivals, services):
    for closed in (mm1_wait, mm1_sojourn, md1_wait):
        with pytest.raises(InputError, match="arrivals per s"):
            closed(arrivals, services)


def test_overload_is_refused_and_the_figures_stay():
    """At 120 % load the queue grows for ever: the run has a mean, the process has none."""
    refused = 0
    for seed in range(30):
        described = describe(mm1_sojourns(1.2, 2000, seed), (95,))
        refused += bool(described.stationarity.refused)
        assert described.mean.value > 0 and described.percentiles[95].value > described.mean.value
        if described.stationarity.refused:
            assert described.mean.low is None and described.percentiles[95].low is None
            assert "no long-run value" in described.mean.evidence
    assert refused >= 29


def test_a_ramp_and_a_swing_are_refused():
    """Load that rises from 50 to 100 %, and load that rises to 130 % and falls again, within one run."""
    ramp = [0.5 + 0.025 * part for part in range(20)]
    swing = [1.3 - 0.08 * abs(part - 9.5) for part in range(20)]
    for loads in (ramp, swing):
        refused = sum(bool(stationarity(changing_load(loads, 250, seed)).refused) for seed in range(30))
        assert refused >= 27, (loads, refused)


def test_steady_runs_pass():
    passed = sum(not stationarity(mm1_sojourns(0.8, 4000, 50 + seed)).refused for seed in range(60))
    assert passed >= 54


def test_too_few_samples_are_described_without_interval():
    described = describe([10, 20, 30], (50, 99))
    assert (described.mean.value, described.mean.low) == (20, None)
    assert described.percentiles[50].value == 20
    assert described.percentiles[99] == TooFew(n=3, needed=100)
    assert describe([]).mean == TooFew(n=0, needed=1)


def test_equal_samples_have_an_interval_of_no_width():
    mean = describe([7.0] * 640, (50,)).mean
    assert (mean.low, mean.high, mean.effective_n) == (7.0, 7.0, 576.0)


def test_kendall_counts_pairs():
    assert kendall(range(16)) == pytest.approx(120 / math.sqrt(16 * 15 * 37 / 18))
    assert kendall([1.0] * 16) == 0.0


def test_batches_refuse_what_cannot_be_cut_into_sixteen():
    with pytest.raises(ValueError, match="63 samples are fewer than 64"):
        batch_means([1.0] * 63)


def test_pairs_of_count_one_are_the_samples_themselves():
    values = mm1_sojourns(0.7, 3000, 5)
    plain, weighted = describe(values), describe_weighted([(value, 1) for value in values])
    assert weighted.mean.value == pytest.approx(plain.mean.value)
    assert weighted.mean.low == pytest.approx(plain.mean.low, rel=1e-6)
    assert weighted.percentiles[95].value == plain.percentiles[95].value
    assert weighted.percentiles[95].effective_n == pytest.approx(plain.percentiles[95].effective_n, rel=1e-6)


def test_weighted_interval_covers_where_the_weight_goes_with_the_value():
    """Pairs (x, k) with E[k x] / E[k] known: x exponential, k = 2 where x > 1, else 1. E[k x] = 1 + 2/e, E[k] = 1 + 1/e."""
    truth, held, given = (1 + 2 / math.e) / (1 + 1 / math.e), 0, 0
    for seed in range(300):
        generator = random.Random(seed)
        pairs = [(x, 2 if x > 1 else 1) for x in (generator.expovariate(1.0) for _ in range(800))]
        mean = describe_weighted(pairs, ()).mean
        if mean.has_interval:
            given, held = given + 1, held + (mean.low <= truth <= mean.high)
    assert given >= 285 and 0.92 <= held / given < 1.0, (held, given)
