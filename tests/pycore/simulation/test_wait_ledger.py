"""The shared log of why a queue waits: against a walk over its entries, sums exact, no hole."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from metric_runs import engine, requests

from pycore.serving.policies.chunked import Chunked
from pycore.simulation.arrivals import OpenLoop
from pycore.simulation.run import SUMMED, Setup, run
from pycore.simulation.selfcheck import selfcheck
from pycore.simulation.wait_ledger import EXACT, MOST, Ledger

REASONS = [("no blocks", None), ("batch full", None), ("behind prefill", "a"), ("behind prefill", "b")]
logs = st.lists(st.tuples(st.integers(1, 50), st.sampled_from(REASONS)), min_size=1, max_size=200)


def noted(steps):
    ledger, now = Ledger(), 0
    for length, why in steps:
        ledger.note(now, why)
        now += length
    return ledger, now


def told(steps, since, until):
    """Nanoseconds of each reason between two times, counted one nanosecond at a time."""
    line = [why[0] for length, why in steps for _ in range(length)]
    return {reason: line[since:until].count(reason) for reason in {why[0] for why in REASONS}}


@given(logs, st.data())
def test_every_nanosecond_has_its_reason(steps, data):
    ledger, end = noted(steps)
    since = data.draw(st.integers(0, end - 1))
    until = data.draw(st.integers(since + 1, end))
    gaps = ledger.between(since, until)
    assert gaps[0].start_ns == since and gaps[-1].end_ns == until
    assert all(before.end_ns == after.start_ns for before, after in pairwise(gaps))
    expected = told(steps, since, until)
    assert {reason: sum(gap.length_ns for gap in gaps if gap.reason == reason) for reason in expected} == expected
    assert len(gaps) <= MOST + 1


def test_a_wait_through_many_changes_is_summed_but_for_its_end():
    steps = [(3 + index % 5, REASONS[index % 4]) for index in range(1000)]
    ledger, end = noted(steps)
    gaps = ledger.between(7, end)
    assert ledger.summed and len(gaps) == 3 + EXACT  # three reasons, whoever stood before
    assert [(gap.reason, gap.behind) for gap in gaps[-2:]] == REASONS[-2:]
    short = Ledger()
    short.note(0, REASONS[0])
    assert short.between(5, 9)[0].length_ns == 4 and not short.summed


def test_an_overloaded_run_stays_small_and_says_that_it_summed():
    result = run(Setup(engines=(engine(Chunked(), blocks=400, limits={"max_sequences": 16, "max_batched_tokens": 256}),)),
                 OpenLoop(requests(600, 500.0, 4)))
    assert SUMMED in result.notes and all(check.holds for check in selfcheck(result))
    assert max(len(request.gaps) for request in result.requests) < 2 * MOST
    calm = run(Setup(engines=(engine(Chunked()),)), OpenLoop(requests(60, 5.0, 4)))
    assert calm.notes == ()
