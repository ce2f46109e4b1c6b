"""Paired comparison: a difference that is there is seen, one that is not is not, and dropping requests does not win."""

import math
import random
from dataclasses import replace

import pytest
from metric_runs import MS, by_hand, simulated

from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.fcfs import Fcfs
from pycore.simulation.compare import compare, leads
from pycore.simulation.records import RequestRecord, Result
from pycore.stats.estimates import TooFew


def drawn(policy: str, ttft_s: list[float], lost: int = 0) -> Result:
    requests = tuple(
        RequestRecord(id=str(index), arrival_ns=index * MS, prompt_tokens=1, output_tokens=1, dropped="shed")
        if index < lost else
        RequestRecord(id=str(index), arrival_ns=index * MS, prompt_tokens=1, output_tokens=1, generated_tokens=1,
                      first_token_ns=index * MS + round(value * 1e9), finished_ns=index * MS + round(value * 1e9))
        for index, value in enumerate(ttft_s))
    return replace(by_hand(), policy=policy, requests=requests)


def pair(seed: int, shift: float, count: int = 2000) -> tuple[Result, Result]:
    """What both share varies by a second; the second run is `shift` s slower, give or take 50 ms."""
    generator = random.Random(seed)
    shared = [generator.expovariate(1.0) for _ in range(count)]
    return (drawn("a", [value + generator.uniform(0.05, 0.15) for value in shared]),
            drawn("b", [value + generator.uniform(0.05, 0.15) + shift for value in shared]))


@pytest.mark.parametrize("percent", [None, 95])
def test_a_shift_is_seen_through_what_both_share(percent):
    """20 ms under a second of common scatter: separate intervals of 8,000 requests are 40 ms wide and more."""
    found = compare(*pair(1, 0.02, 8000), percent=percent)
    assert (found.winner, found.certain) == ("a", True)
    if percent is None:
        assert found.difference.low <= -0.02 <= found.difference.high
    else:
        assert "later than" in found.reason and found.difference.value < 0


@pytest.mark.parametrize("percent", [None, 95])
def test_no_difference_is_certain_once_in_twenty_at_most_about(percent):
    certain = sum(compare(*pair(seed, 0.0, 640), percent=percent).certain for seed in range(100))
    assert certain <= 9


def test_intervals_of_the_mean_difference_cover():
    held = given = 0
    for seed in range(100):
        found = compare(*pair(300 + seed, 0.01, 640)).difference
        if found.has_interval:
            given, held = given + 1, held + (found.low <= -0.01 <= found.high)
    assert given >= 90 and held / given >= 0.9, (held, given)


def test_dropping_the_slow_ones_does_not_win():
    slow, quick = [1.0] * 3 + [0.5] * 197, [0.4] * 200
    kept, shed = drawn("keeps", slow), drawn("sheds", quick, lost=3)
    assert compare(kept, shed).winner == "keeps", "its mean is finite"
    assert compare(kept, shed, percent=99).winner == "keeps" and compare(kept, shed, percent=50).winner == "sheds"
    found = compare(kept, shed, percent=99)
    assert found.difference.value == -math.inf and not found.certain and "lost" in found.reason


def test_policies_on_one_trace():
    """Under fcfs prompts go first: it is faster to the first token, chunked is smoother between tokens."""
    options = {"count": 800, "rate": 60.0}
    fcfs, chunked = simulated(policy=Fcfs(), **options), simulated(policy=Chunked(), limits={"chunk_budget": 256}, **options)
    assert compare(fcfs, chunked, "ttft").winner == "fcfs"
    with pytest.raises(ValueError, match="same requests"):
        compare(fcfs, simulated(count=10))


def test_what_cannot_be_said():
    first, second = pair(1, 0.1, 60)
    assert compare(first, second, percent=99).difference == TooFew(n=60, needed=100)
    few = compare(first, second, percent=90)
    assert few.winner == "a" and not few.certain and "requests are late in one run" in few.reason
    assert compare(first, first).winner == ""


def values(*runs: Result) -> list[list[float]]:
    """The mean of each run, as `leads` takes it."""
    return [[sum(one.ttft_ns for one in run.requests if one.ttft_ns) / 1e9 / len(run.requests) for run in runs]]


def test_the_lead_is_certain_only_against_every_rival():
    first, second = pair(1, 0.02, 8000)
    third = replace(second, policy="c", requests=first.requests)  # what the best one does, under another name
    [lead] = leads([second, first], "ttft", (None,), values(second, first))
    assert (lead.place, lead.certain, lead.nearest.first) == (1, True, "b")
    assert lead.nearest.difference.value > 0 and lead.nearest.difference.low > 0, "ahead is above nought"
    nearly = drawn("c", [one.ttft_ns / 1e9 + (1e-4 if number == 0 else 0) for number, one in enumerate(first.requests)])
    [lead] = leads([second, first, nearly], "ttft", (None,), [[1.2, 1.1, 1.15]])
    assert lead.place == 1 and not lead.certain and lead.nearest.first == "c"
    assert leads([first, third], "ttft", (None,), values(first, third)) == (None,), "alike"


def test_who_sheds_requests_does_not_lead():
    kept, shed = drawn("keeps", [1.0] * 3 + [0.5] * 197), drawn("sheds", [0.4] * 200, lost=3)
    by_mean, by_median = leads([kept, shed], "ttft", (None, 50), [[0.51, 0.4], [0.5, 0.4]])
    assert by_mean.place == 0 and by_median.place == 1
