"""Arrival processes against their closed forms (moments, index of dispersion, Kolmogorov-Smirnov), and traffic with
feedback against the laws of queues."""

import math
import os
import statistics
import subprocess
import sys
from bisect import bisect_right
from itertools import islice, pairwise
from random import Random

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore.errors import InputError
from pycore.serving.request import Request
from pycore.simulation import arrivals
from pycore.simulation.arrivals import Chain, ClosedLoop, OpenLoop

SECOND = 1_000_000_000
KS_ONE_PERCENT = 1.628  # critical value of sqrt(n) D at 1 % (Kolmogorov's distribution)


def gaps_s(times) -> list[float]:
    return [(later - earlier) / SECOND for earlier, later in pairwise(times)]


def dispersion(times, window_s: float) -> float:
    """Variance over mean of the counts in consecutive windows."""
    width = round(window_s * SECOND)
    edges = [bisect_right(times, edge) for edge in range(0, times[-1] - width, width)]
    counts = [later - earlier for earlier, later in pairwise(edges)]
    return statistics.variance(counts) / statistics.mean(counts)


def distance(sample: list[float], cdf) -> float:
    """Kolmogorov's D of a sample against a distribution function."""
    ordered, n = sorted(sample), len(sample)
    return max(max((index + 1) / n - cdf(x), cdf(x) - index / n) for index, x in enumerate(ordered))


def draw(process, count: int) -> list[int]:
    return list(islice(process, count))


CLOSED_FORMS = {
    "exponential": (lambda rng: arrivals.poisson(7.0, rng), lambda x: 1 - math.exp(-7 * x)),
    "gamma of cv 1 is exponential": (lambda rng: arrivals.gamma(7.0, 1.0, rng), lambda x: 1 - math.exp(-7 * x)),
    "gamma of shape 2 is Erlang": (lambda rng: arrivals.gamma(7.0, math.sqrt(0.5), rng),
                                   lambda x: 1 - math.exp(-14 * x) * (1 + 14 * x)),
    "gamma of shape 1/2 is chi-squared": (lambda rng: arrivals.gamma(7.0, math.sqrt(2.0), rng),
                                          lambda x: math.erf(math.sqrt(3.5 * x))),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_gaps_follow_their_closed_form(name):
    process, cdf = CLOSED_FORMS[name]
    sample = gaps_s([0, *draw(process(Random(20)), 20_000)])
    assert distance(sample, cdf) * math.sqrt(len(sample)) < KS_ONE_PERCENT


def test_the_closed_form_would_tell_a_wrong_rate():
    """The test above can fail: at 3 % more than the rate asked (a peer clips long gaps and is 5.2 % off) it does."""
    sample = gaps_s([0, *draw(arrivals.poisson(7.0 * 1.03, Random(20)), 20_000)])
    assert distance(sample, CLOSED_FORMS["exponential"][1]) * math.sqrt(len(sample)) > KS_ONE_PERCENT


@pytest.mark.parametrize("cv", [0.2, 0.7, 1.0, 2.0, 4.0, 13.0])
def test_gamma_gaps_agree_with_numpys(cv):
    """Two-sample Kolmogorov-Smirnov against numpy's own sampler; gaps below a microsecond count as none in both."""
    ours = gaps_s([0, *draw(arrivals.gamma(5.0, cv, Random(3)), 8_000)])
    theirs = numpy.round(numpy.random.default_rng(3).gamma(1 / cv**2, cv**2 / 5.0, 8_000), 6)
    places = numpy.concatenate([ours, theirs])
    apart = numpy.abs(numpy.searchsorted(numpy.sort(ours), places, "right") - numpy.searchsorted(
        numpy.sort(theirs), places, "right")).max() / 8_000
    assert apart * math.sqrt(4_000) < KS_ONE_PERCENT


@pytest.mark.parametrize(("process", "rate", "cv"), [
    (lambda rng: arrivals.poisson(40.0, rng), 40.0, 1.0), (lambda rng: arrivals.poisson(0.02, rng), 0.02, 1.0),
    (lambda rng: arrivals.gamma(40.0, 0.5, rng), 40.0, 0.5), (lambda rng: arrivals.gamma(40.0, 3.0, rng), 40.0, 3.0),
    (lambda rng: arrivals.poisson(9_000.0, rng), 9_000.0, 1.0)])
def test_moments(process, rate, cv):
    sample = gaps_s([0, *draw(process(Random(5)), 50_000)])
    mean, spread = statistics.fmean(sample), statistics.stdev(sample)
    assert abs(mean * rate - 1) < 4 * cv / math.sqrt(len(sample)), "mean gap within four standard errors of 1 / rate"
    assert spread / mean == pytest.approx(cv, rel=0.06)


def test_index_of_dispersion():
    """1 for Poisson at every scale; for renewal processes it tends to the gaps' squared cv (Cox and Lewis, 1966)."""
    poisson = draw(arrivals.poisson(10.0, Random(8)), 60_000)
    assert all(dispersion(poisson, window) == pytest.approx(1.0, rel=0.12) for window in (0.5, 1.0, 10.0))
    assert dispersion(draw(arrivals.gamma(10.0, 3.0, Random(8)), 200_000), 100.0) == pytest.approx(9.0, rel=0.25)
    assert dispersion(draw(arrivals.gamma(10.0, 0.5, Random(8)), 200_000), 20.0) == pytest.approx(0.25, rel=0.15)


@pytest.mark.parametrize(("on", "off"), [(1.0, 1.0), (0.5, 2.0)])
def test_on_off_has_its_mean_rate_and_the_dispersion_of_an_interrupted_poisson_process(on, off):
    times = draw(arrivals.on_off(12.0, on, off, Random(2)), 240_000)
    assert len(times) / (times[-1] / SECOND) == pytest.approx(12.0, rel=0.04)
    limit = 1 + 2 * (12.0 * (on + off) / on) / on / (1 / on + 1 / off) ** 2  # Heffes and Lucantoni, 1986
    assert dispersion(times, 60.0) == pytest.approx(limit, rel=0.2)


def test_deterministic_arrivals_do_not_drift():
    times = draw(arrivals.deterministic(3.0), 300_001)
    assert times[:4] == [0, 333_333_000, 666_667_000, SECOND]
    assert times[300_000] == 100_000 * SECOND


def test_batch_and_replay():
    assert draw(arrivals.batch(), 3) == [0, 0, 0]
    assert list(arrivals.replay([0, 5, 5, 11])) == [0, 5, 5, 11]
    assert list(arrivals.replay([0, 3_000, 9_000], speed=3.0)) == [0, 1_000, 3_000]


@pytest.mark.parametrize("rate", [0, -1, math.inf, math.nan, "8", None, 1e9, 1e-9])
def test_impossible_rates_are_refused(rate):
    for process in (lambda: arrivals.poisson(rate, Random(0)), lambda: arrivals.gamma(rate, 2.0, Random(0)),
                    lambda: arrivals.deterministic(rate), lambda: arrivals.on_off(rate, 1.0, 1.0, Random(0))):
        with pytest.raises(InputError, match=r"rate: .* accepted: a number from 1e-06 to 10000 requests/s"):
            process()


@pytest.mark.parametrize("process", [
    lambda: arrivals.gamma(1.0, 0.0, Random(0)), lambda: arrivals.gamma(1.0, math.nan, Random(0)),
    lambda: arrivals.on_off(1.0, 0.0, 1.0, Random(0)), lambda: arrivals.on_off(1.0, 1.0, math.inf, Random(0)),
    lambda: arrivals.on_off(9_000.0, 1.0, 1.0, Random(0)), lambda: arrivals.replay([1], 0.0)])
def test_impossible_parameters_are_refused(process):
    with pytest.raises(InputError, match="accepted"):
        process()


@given(rate=st.floats(1e-6, 1e4), cv=st.floats(0.01, 100.0), seed=st.integers(0, 1 << 53))
def test_times_are_whole_microseconds_and_never_decrease(rate, cv, seed):
    for process in (arrivals.poisson(rate, Random(seed)), arrivals.gamma(rate, cv, Random(seed)),
                    arrivals.deterministic(rate)):
        times = draw(process, 40)
        assert all(isinstance(time, int) and time % 1_000 == 0 and time >= 0 for time in times)
        assert times == sorted(times)


DIGEST = """
import hashlib, json
from itertools import islice
from random import Random
from pycore.simulation import arrivals
made = [list(islice(process, 2000)) for process in (
    arrivals.poisson(8.0, Random(1)), arrivals.gamma(8.0, 3.0, Random(1)), arrivals.gamma(8.0, 0.3, Random(1)),
    arrivals.on_off(8.0, 2.0, 6.0, Random(1)), arrivals.deterministic(7.0))]
result = hashlib.sha256(json.dumps(made).encode()).hexdigest()
print(result)
"""


def test_equal_in_every_process():
    """Peers' runs differ between processes, as they use hash(str)."""
    made = {subprocess.run([sys.executable, "-c", DIGEST], env=os.environ | {"PYTHONHASHSEED": seed}, check=True,
                           capture_output=True, text=True).stdout for seed in ("0", "1", "77")}
    assert len(made) == 1


def request(name: str, arrival_ns: int = 0, deadline_ns: int | None = None) -> Request:
    return Request(id=name, arrival_ns=arrival_ns, prompt_tokens=10, output_tokens=5, deadline_ns=deadline_ns)


def test_open_traffic_is_taken_in_order_of_arrival_and_ties_in_the_order_given():
    traffic = OpenLoop([request("c", 20), request("a", 10), request("b", 10)])
    assert traffic.next_arrival_ns(0) == 10 and traffic.take(9) == ()
    assert [one.id for one in traffic.take(10)] == ["a", "b"]
    traffic.on_finish("a", 15)
    assert traffic.next_arrival_ns(15) == 20 and [one.id for one in traffic.take(99)] == ["c"]
    assert traffic.next_arrival_ns(99) is None and traffic.take(1_000) == ()


def test_a_chain_waits_for_its_own_requests_alone():
    chains = [Chain(requests=(request("a1", 5), request("a2", deadline_ns=3), request("a3")), think_ns=(100, 0)),
              Chain(requests=(request("b1", 5),), think_ns=())]
    traffic = ClosedLoop(chains)
    assert [one.id for one in traffic.take(5)] == ["a1", "b1"] and traffic.next_arrival_ns(5) is None
    traffic.on_finish("b1", 7)
    assert traffic.next_arrival_ns(7) is None
    traffic.on_finish("a1", 50)
    assert traffic.next_arrival_ns(50) == 150 and traffic.take(149) == ()
    (second,) = traffic.take(200)
    assert (second.id, second.arrival_ns, second.deadline_ns) == ("a2", 150, 153), "it came at 150, though taken at 200"
    traffic.on_finish("a2", 300)
    assert [one.id for one in traffic.take(300)] == ["a3"]
    with pytest.raises(KeyError):
        traffic.on_finish("a2", 300)


def test_a_chain_needs_a_pause_between_two_requests():
    with pytest.raises(ValueError, match="pause"):
        Chain(requests=(request("a"), request("b")), think_ns=())
    with pytest.raises(ValueError, match="pause"):
        Chain(requests=(request("a"), request("b")), think_ns=(-1,))


def closed_run(users: int, think_s: float, service_s: float, each: int) -> tuple[float, float, float, int]:
    """One server of constant service time: (throughput, mean response and think time, most requests out at once)."""
    rng, chains, thought = Random(4), [], []
    for user in range(users):
        pauses = tuple(round(-math.log(1 - rng.random()) * think_s * 1e9) for _ in range(each))
        thought += pauses
        chains.append(Chain(requests=tuple(request(f"{user}-{index}", pauses[0]) for index in range(each)), think_ns=pauses[1:]))
    traffic, now, queue, responses, most = ClosedLoop(chains), 0, [], [], 0
    while True:
        queue += traffic.take(now)
        most = max(most, len(queue))
        if queue:
            first = queue.pop(0)
            now = max(now, first.arrival_ns) + round(service_s * 1e9)
            queue += traffic.take(now)
            most = max(most, len(queue) + 1)
            responses.append((now - first.arrival_ns) / SECOND)
            traffic.on_finish(first.id, now)
        elif (following := traffic.next_arrival_ns(now)) is None:
            return len(responses) / (now / SECOND), statistics.fmean(responses), statistics.fmean(thought) / SECOND, most
        else:
            now = following


@pytest.mark.parametrize(("users", "think_s"), [(1, 0.0), (1, 0.4), (8, 0.0), (8, 0.4), (3, 1.0)])
def test_closed_traffic_obeys_the_interactive_response_time_law(users, think_s):
    """R = N / X - Z (Denning and Buzen, 1978), never more than N requests out, and X = 1 / S without thinking."""
    throughput, response, thought, most = closed_run(users, think_s, 0.1, 1_500)
    assert most <= users
    assert response + thought == pytest.approx(users / throughput, rel=0.05), "but for the end, when users run out"
    assert thought == pytest.approx(think_s, rel=0.1)
    if think_s == 0.0:
        assert throughput == pytest.approx(10.0, rel=1e-6)
