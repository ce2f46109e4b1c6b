"""What the whole answer says beyond its runs: objectives, deadlines, hardware, answers that were cut."""

from dataclasses import replace

import pytest

from pycore.systems.sched_sim import Query, answer, requests

CROWDED = Query(workload="poisson rate=9 prompt=lognormal:1500 output=150 requests=120", against="")


def first_token_seconds(query):
    return [request.ttft_ns for request in answer(query).runs[0].result.requests]


def test_the_target_is_the_deadline_that_slack_is_counted_to():
    """slo-aware without a ttft in the workload was chunked prefill to the digit, whatever the target."""
    chunked = first_token_seconds(CROWDED)
    slack = replace(CROWDED, scheduler="slo-aware")
    assert first_token_seconds(replace(slack, slo_ttft_ms=3000)) != chunked
    assert first_token_seconds(replace(slack, slo_ttft_ms=0)) == chunked  # no target, nothing to hurry for


def test_the_workloads_own_objective_counts_before_the_questions():
    named = replace(CROWDED, workload=CROWDED.workload + " ttft=700ms tpot=40ms", slo_ttft_ms=9000)
    found = answer(named)
    assert found.runs[0].metrics.goodput.slo.text == "TTFT ≤ 0.7 s and TPOT ≤ 0.04 s"
    assert {one.deadline_ns - one.arrival_ns for one in requests(named).requests} == {700_000_000}
    assert answer(CROWDED).runs[0].metrics.goodput.slo.text == "TTFT ≤ 2 s and TPOT ≤ 0.1 s"
    assert {one.deadline_ns - one.arrival_ns for one in requests(CROWDED).requests} == {2_000_000_000}


def test_the_line_of_a_workload_stays_as_it_was_written():
    assert "ttft" not in answer(CROWDED).workload_text


def test_a_trace_of_ones_own_gets_the_target_unless_its_rows_have_deadlines():
    rows = "arrival_s,prompt_tokens,output_tokens{}\n0,100,5{}\n1,200,5{}\n"
    plain = requests(Query(trace=rows.format("", "", ""), slo_ttft_ms=500))
    assert [one.deadline_ns - one.arrival_ns for one in plain.requests] == [500_000_000] * 2
    own = requests(Query(trace=rows.format(",deadline_ms", ",80", ",90"), slo_ttft_ms=500))
    assert [one.deadline_ns - one.arrival_ns for one in own.requests] == [80_000_000, 90_000_000]


def test_two_pools_say_that_they_had_more_devices():
    apart = replace(CROWDED, against="disaggregated")
    assert any("ran on 2 devices, the other policies on 1" in note and "replicas 2" in note for note in answer(apart).notes)
    assert not any("devices" in note for note in answer(replace(apart, replicas=2)).notes)
    assert any("not from replicas" in note for note in answer(replace(apart, replicas=3)).notes)
    assert not any("devices" in note for note in answer(CROWDED).notes)


@pytest.mark.parametrize(("count", "says"), [(1, "1 answer ends"), (2, "2 answers end")])
def test_answers_that_the_models_length_cuts_are_counted(count, says):
    long = Query(workload=f"batch prompt=131000 output=500 requests={count}", kv_blocks=20_000, against="")
    note = next(note for note in answer(long).notes if says in note)
    assert "131,072 tokens" in note and f"{428 * count:,} tokens before" in note
    assert not any("model's" in note for note in answer(CROWDED).notes)


def test_asynchronous_scheduling_can_be_asked_for():
    """A step planned while one runs sees an arrival a step later, so the runs differ; both keep every law."""
    one, two = (answer(replace(CROWDED, steps_in_flight=depth)).runs[0] for depth in (1, 2))
    assert one.result != two.result
    assert all(check.holds for run in (one, two) for check in run.checks)
