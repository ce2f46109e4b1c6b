"""The longest silences of a run against the plain way: every token's time, neighbour by neighbour."""

import pytest

from pycore.simulation.records import Result, token_times
from pycore.simulation.silences import largest_by_time, longest, longest_term
from pycore.systems.sched_sim import Query, answer

QUESTIONS = (Query(), Query(workload="poisson rate=6 prompt=lognormal:600 output=lognormal:80 requests=60", kv_blocks=400),
             Query(scheduler="disaggregated", against="", limit=12))


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [run.result for query in QUESTIONS for run in answer(query).runs]


def plain(result: Result) -> list[tuple[int, int]]:
    """(later token's time, silence before it) of every token but a request's first."""
    found = []
    for request in result.requests:
        times = token_times(result, request)
        found += [(later, later - earlier) for earlier, later in zip(times, times[1:], strict=False)]
    return found


def test_longest_is_the_longest(results):
    for result in results:
        worst = max(length for _, length in plain(result))
        silence = longest(result)
        assert silence.length_ns == worst
        assert longest_term(silence).value == worst / 1e9


def test_by_time_keeps_the_longest_of_each_stretch(results):
    for result in results:
        most: dict[int, int] = {}
        for at, length in plain(result):
            place = at * 50 // (result.makespan_ns + 1)
            most[place] = max(most.get(place, 0), length)
        assert [length for _, length in largest_by_time(result, 50)] == [most[place] for place in sorted(most)]


def test_answers_of_one_token_have_none():
    query = Query(against="", workload="deterministic rate=4 prompt=64 output=1 requests=5")
    assert longest(answer(query).runs[0].result) is None
