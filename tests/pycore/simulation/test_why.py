"""Gaps are attributed to what caused them, and the policy that the rule names really removes them when it is run."""

import dataclasses

import pytest
from metric_runs import MS, Linear, by_hand, engine

from pycore.errors import UnknownName
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.decode_first import DecodeFirst
from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.policies.sjf import Sjf
from pycore.serving.request import Request
from pycore.simulation.arrivals import OpenLoop
from pycore.simulation.records import REASONS, Result
from pycore.simulation.remedies import remedy
from pycore.simulation.run import Setup, run
from pycore.simulation.why import BETWEEN, FIRST, totals, under, why
from pycore.systems.sched_sim import SCHEDULERS, Query


def request(name: str, arrival_ms: float, prompt: int, output: int, **more) -> Request:
    return Request(id=name, arrival_ns=round(arrival_ms * MS), prompt_tokens=prompt, output_tokens=output,
                   predicted_output=output, **more)


def simulate(policy, *asked: Request, **options) -> Result:
    return run(Setup(engines=(engine(policy, **options),)), OpenLoop(asked))


def test_by_hand():
    explained = why(by_hand(), "a")
    assert [(cause.reason, cause.behind, cause.phase, cause.seconds.value) for cause in explained.causes] == [
        ("behind prefill", "b", BETWEEN, 0.020)]
    assert explained.causes[0].text == "20 ms behind prefill of b, between its tokens"
    assert explained.causes[0].remedy.policy == "chunked"
    assert (explained.stay.value, explained.working.value, explained.idle.value) == (0.035, 0.015, 0.020)
    assert explained.causes[0].share.value == pytest.approx(20 / 35)
    b = why(by_hand(), "b")
    assert [(cause.reason, cause.seconds.value, cause.remedy.field) for cause in b.causes] == [
        ("step under way", 0.005, "scheduler"), ("no blocks", 0.002, "kv_blocks")]
    assert {cause.phase for cause in b.causes} == {FIRST}


def test_a_long_prompt_stalls_decodes_under_fcfs_and_chunks_remove_it():
    """The classic of the page: r0 decodes, a long prompt arrives, r0 stands still behind it; with chunks it does not."""
    asked = (request("r0", 0, 100, 200), request("long", 50, 8000, 5))
    wide = {"limits": {"max_batched_tokens": 10_000}}
    stalled = simulate(Fcfs(), *asked, **wide)
    cause = why(stalled, "r0").causes[0]
    assert (cause.reason, cause.behind, cause.phase) == ("behind prefill", "long", BETWEEN)
    assert cause.seconds.value == pytest.approx(0.081, rel=0.02), "1 ms and 8,000 x 10 microseconds"
    assert cause.remedy.policy == "chunked"
    smooth = simulate(Chunked(), *asked, limits={"chunk_budget": 512})
    ranked = under([("fcfs", stalled), ("chunked", smooth)], "r0", cause)
    assert ranked[0][0] == "chunked" and ranked[0][1].value == 0.0 and ranked[1][1].value == cause.seconds.value
    assert why(smooth, "r0").beside_prompts.value > 0.08, "the prompt's time is still there, in steps that also decode"


def test_a_short_request_behind_a_long_one_is_let_past_by_sjf():
    asked = (request("first", 0, 3000, 3000), request("long", 1, 3000, 3000), request("short", 2, 200, 5))
    one = {"limits": {"max_sequences": 1}}
    waited = simulate(Fcfs(), *asked, **one)
    cause = why(waited, "short").causes[0]
    assert (cause.reason, cause.phase, cause.remedy.field) == ("batch full", FIRST, "max_sequences")
    passed = simulate(Sjf(), *asked, **one)
    assert under([("fcfs", waited), ("sjf", passed)], "short", cause)[0][0] == "sjf"


def test_a_small_pool_is_named():
    asked = tuple(request(f"r{index}", index, 400, 100) for index in range(6))
    crowded = simulate(Chunked(), *asked, blocks=80)
    reasons = {total.reason for total in totals(crowded)}
    assert "no blocks" in reasons
    blamed = [cause for one in crowded.requests for cause in why(crowded, one.id).causes if cause.reason == "no blocks"]
    assert blamed and all(cause.remedy.field == "kv_blocks" for cause in blamed)
    roomy = simulate(Chunked(), *asked, blocks=2000)
    assert "no blocks" not in {total.reason for total in totals(roomy)}, "more blocks remove it, as the rule says"


def test_arriving_during_a_step_is_waiting_for_it():
    late = simulate(Fcfs(), request("r0", 0, 4000, 3), request("r1", 5, 100, 3), cost=Linear(), limits={"max_batched_tokens": 5000})
    cause = why(late, "r1").causes[0]
    assert (cause.reason, cause.seconds.value) == ("step under way", pytest.approx(0.036))
    assert cause.remedy.policy == "chunked"


def test_a_preempted_request_says_so():
    asked = tuple(request(f"r{index}", index, 300, 300) for index in range(4))
    result = simulate(Chunked(), *asked, blocks=100, limits={"reserve_known": False})
    preempted = [one for one in result.requests if one.preemptions]
    assert preempted
    reasons = {cause.reason for one in preempted for cause in why(result, one.id).causes if cause.phase == BETWEEN}
    assert reasons & {"preempted", "no blocks"}


def test_every_idle_nanosecond_has_a_cause():
    asked = [request(f"r{index}", 7 * index, 900, 40) for index in range(60)]
    for policy in (Fcfs(), Chunked(), DecodeFirst(), Sjf()):
        result = simulate(policy, *asked, blocks=300)
        idle = 0
        for one in result.requests:
            explained = why(result, one.id)
            assert explained.stay.value == pytest.approx(one.e2e_ns / 1e9)
            assert sum(cause.seconds.value for cause in explained.causes) == pytest.approx(explained.idle.value)
            assert all(cause.remedy.rule for cause in explained.causes)
            idle += sum(gap.length_ns for gap in one.gaps)
        assert sum(total.seconds.value for total in totals(result)) == pytest.approx(idle / 1e9)
        assert sum(total.share.value for total in totals(result)) == pytest.approx(1.0)


def test_remedies_are_fields_and_choices_of_the_question():
    fields = {field.name: field for field in dataclasses.fields(Query)}
    one = by_hand().requests[0]
    for reason in (*REASONS, "output in flight"):
        for policy in SCHEDULERS:
            for decoding in (False, True):
                for deadline in (None, 5):
                    found = remedy(reason, policy=policy, decoding=decoding, blocker=dataclasses.replace(one, output_tokens=9),
                                   request=dataclasses.replace(one, deadline_ns=deadline))
                    assert found.rule and (not found.field or found.field in fields), found
                    if found.policy:
                        assert found.policy in SCHEDULERS and found.policy != policy, (reason, policy, found)


def test_an_unknown_request_is_refused_with_the_nearest_ids():
    with pytest.raises(UnknownName, match="'r17' is not accepted"):
        why(by_hand(), "r17")
    asked = [request(f"r{index}", index, 10, 2) for index in range(20)]
    with pytest.raises(UnknownName) as refused:
        why(simulate(Fcfs(), *asked), "r199")
    assert "r19" in refused.value.suggestions
