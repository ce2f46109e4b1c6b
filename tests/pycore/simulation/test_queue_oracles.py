"""The simulator as a queue whose answer is known: one seat, one step a request, Poisson arrivals.

With exponential prompts (a step costs 10 microseconds a token, 1,000 tokens on average) it is M/M/1, with equal prompts
M/D/1; service takes 10 ms. The closed form must lie within the interval that the metrics give, which covers 95 %.
"""

import random

import pytest
from metric_runs import Linear, engine

from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.request import Request
from pycore.simulation.arrivals import OpenLoop
from pycore.simulation.metrics import measure
from pycore.simulation.records import Result
from pycore.simulation.run import Setup, run
from pycore.simulation.selfcheck import selfcheck
from pycore.stats.queues import md1_wait, mm1_sojourn, mm1_sojourn_quantile, mm1_wait

SERVICE_S, MEAN_TOKENS, LONGEST = 0.01, 1000, 15_000


def queue(load: float, count: int, seed: int, *, equal: bool = False) -> Result:
    generator, now, asked = random.Random(seed), 0.0, []
    for index in range(count):
        now += generator.expovariate(load / SERVICE_S)
        tokens = MEAN_TOKENS if equal else min(LONGEST, max(1, round(generator.expovariate(1 / MEAN_TOKENS))))
        asked.append(Request(id=str(index), arrival_ns=round(now * 1e9), prompt_tokens=tokens, output_tokens=1))
    one = engine(Fcfs(), cost=Linear(step=0), limits={"max_sequences": 1, "max_batched_tokens": LONGEST})
    return run(Setup(engines=(one,)), OpenLoop(asked))


@pytest.mark.parametrize("load, count", [(0.5, 3000), (0.8, 12_000)])
def test_mm1(load, count):
    result = queue(load, count, seed=5)
    measured = measure(result)
    stay, wait = measured.latencies["e2e"], measured.latencies["queueing"]
    arrivals, services = load / SERVICE_S, 1 / SERVICE_S
    assert stay.mean.low <= mm1_sojourn(arrivals, services).value <= stay.mean.high
    assert wait.mean.low <= mm1_wait(arrivals, services).value <= wait.mean.high
    for percent in (50, 90, 95):
        expected = mm1_sojourn_quantile(arrivals, services, percent / 100).value
        assert stay.percentiles[percent].low <= expected <= stay.percentiles[percent].high
    assert stay.mean.high < 1.6 * stay.mean.low, "and the interval says something"
    assert measured.batches.busy.value == pytest.approx(load, rel=0.1)
    assert all(check.holds for check in selfcheck(result))


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_md1_waits_half_as_long(load):
    wait = measure(queue(load, 10_000, seed=2, equal=True)).latencies["queueing"].mean
    assert wait.low <= md1_wait(load / SERVICE_S, 1 / SERVICE_S).value <= wait.high
    assert not wait.low <= mm1_wait(load / SERVICE_S, 1 / SERVICE_S).value <= wait.high, "told apart from M/M/1"
