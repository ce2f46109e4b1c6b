"""The bend of a sweep against queues whose bend is known: M/M/1 has its knee at half its capacity."""

import math

import pytest
from metric_runs import engine, requests

from pycore.serving.policies.chunked import Chunked
from pycore.simulation.arrivals import OpenLoop
from pycore.simulation.goodput import Slo
from pycore.simulation.knee import Bend, Point, bend, point
from pycore.simulation.metrics import measure
from pycore.simulation.run import Setup, run
from pycore.stats.queues import mm1_sojourn


def mm1(rate: float, target_s: float = 10.0) -> Point:
    """A point of an M/M/1 queue of capacity 1/s: closed forms below it, a growing queue from it on."""
    if rate >= 1.0:
        return Point(rate_per_s=rate, finished_per_s=1.0, mean_e2e_s=1000.0 * rate, settles=False, good_share=0.01,
                     good_per_s=0.01)
    share = 1 - math.exp(-(1.0 - rate) * target_s)
    return Point(rate_per_s=rate, finished_per_s=rate, mean_e2e_s=mm1_sojourn.plain(rate, 1.0), settles=True,
                 good_share=share, good_per_s=rate * share)


RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)


def test_knee_of_mm1_is_half_its_capacity():
    """Kleinrock 1979: power rate x (capacity - rate) is largest at half the capacity."""
    knee = bend([mm1(rate) for rate in RATES]).knee
    assert (knee.value, knee.low, knee.high) == (0.5, 0.4, 0.6)


def test_saturation_is_bracketed_by_the_rates_around_capacity():
    saturation = bend([mm1(rate) for rate in RATES]).saturation
    assert (saturation.value, saturation.low, saturation.high) == (0.9, 0.9, 1.0)


@pytest.mark.parametrize("target_s", [4.0, 6.0, 20.0])
def test_cliff_of_mm1_is_where_nine_tenths_stay_below_the_target(target_s):
    """P(T <= t) = 1 - exp(-(1 - rate) t) falls to 90 % at rate 1 - ln(10) / t."""
    cliff = bend([mm1(rate, target_s) for rate in RATES]).cliff
    assert cliff.low <= 1 - math.log(10) / target_s < cliff.high


def test_what_the_sweep_does_not_reach_is_not_invented():
    low = bend([mm1(rate) for rate in (0.1, 0.2, 0.3)])
    assert (low.knee, low.saturation, low.cliff) == (None, None, None)
    assert low.remarks == ("the knee lies beyond the highest rate, 0.3/s", "up to the highest rate, 0.3/s: queues settle",
                           "up to the highest rate, 0.3/s: 90% of requests meet their targets")
    high = bend([mm1(rate) for rate in (1.1, 1.2, 1.3)])
    assert (high.saturation, high.cliff) == (None, None) and "at no rate of the sweep" in high.remarks[1]
    assert bend([mm1(0.1), mm1(0.2)]).remarks == ("a sweep needs three rates to bend",)


def test_one_false_alarm_does_not_move_the_saturation():
    points = [mm1(rate) for rate in RATES]
    points[2] = Point(rate_per_s=0.3, finished_per_s=0.3, mean_e2e_s=1.5, settles=False, good_share=0.95, good_per_s=0.29)
    saturation = bend(points).saturation
    assert (saturation.low, saturation.high) == (0.9, 1.0) and "0.3/s" in saturation.note


@pytest.fixture(scope="module")
def swept() -> Bend:
    """A sweep of the simulator; one request costs its server about 1 / 260 s of steps."""
    slo = Slo(ttft_s=0.5)
    return bend([point(rate, measure(run(Setup(engines=(engine(Chunked()),)), OpenLoop(requests(1200, rate, 11))), slo))
                 for rate in (40.0, 80.0, 120.0, 160.0, 200.0, 300.0)])


def test_the_simulator_bends(swept):
    """Capacity from the cost itself: prompts and decodes at full batches of 64."""
    per_request_s = (400 * 10e-6 + 60 * 20e-6) + 60 * 1e-3 / 64
    capacity = 1 / per_request_s
    assert swept.saturation is not None
    assert swept.saturation.low < capacity * 1.05 and swept.saturation.high > capacity * 0.8
    assert swept.cliff is not None and swept.cliff.low <= swept.saturation.high
    assert swept.best_goodput.value <= max(one.good_per_s for one in swept.points)
    shares = [one.good_share for one in swept.points]
    assert shares[0] > 0.99 and shares[-1] < 0.5, "the cliff"


def test_few_requests_leave_saturation_open():
    points = [point(rate, measure(run(Setup(engines=(engine(Chunked()),)), OpenLoop(requests(20, rate, 1)))))
              for rate in (10.0, 20.0, 40.0)]
    found = bend(points)
    assert found.saturation is None and "too few requests" in " ".join(found.remarks)
