"""What each policy is for: the behaviour it is chosen for, on the smallest trace that shows it."""

import pytest
from serving_driving import drive, request, scheduler

from pycore.serving.policies.cache_aware import CacheAware
from pycore.serving.policies.priority import Priority
from pycore.serving.policies.slo_aware import SloAware


def long_beside_short(policy, **limits):
    """A short request decodes when a prompt of 100 tokens arrives; the prompt tokens of each step that follows."""
    served = scheduler(policy, blocks=80, **{"max_batched_tokens": 128} | limits)
    run = drive(served, [request("short", 4, 20), request("long", 100, 2, arrival=3)], tokens=False)
    return served, run


def held(run, name):
    return [(h.reason, h.blocker) for plan in run.plans for h in plan.held_back if h.sequence_id == name]


def test_prefill_first_stalls_decodes_behind_a_long_prompt_and_says_so():
    _, run = long_beside_short("fcfs")
    assert held(run, "short") == [("behind prefill", "long")]


def test_chunked_prefill_removes_the_stall():
    _, run = long_beside_short("chunked", chunk_budget=16)
    assert held(run, "short") == []
    assert max(plan.tokens for plan in run.plans) == 16
    assert [plan.prefill_tokens for plan in run.plans if "long" in plan.prefilling] == [15] * 6 + [10]


def test_decodes_first_leaves_a_whole_prompt_waiting_until_it_fits():
    _, run = long_beside_short("decode_first", max_batched_tokens=100)
    assert held(run, "short") == []
    assert ("token budget", None) in held(run, "long")
    assert run.sequences["long"].first_scheduled_ns >= run.sequences["short"].finished_ns


def test_a_prompt_above_the_step_limit_is_cut_by_any_policy():
    for policy in ("fcfs", "decode_first"):
        _, run = long_beside_short(policy, max_batched_tokens=40)
        assert max(plan.tokens for plan in run.plans) <= 40 and run.sequences["long"].status == "finished"


def finishing_order(policy, requests, **options):
    run = drive(scheduler(policy, **{"max_sequences": 1} | options), requests)
    return [event.sequence_id for event in run.events if event.kind == "finished"]


def test_the_shortest_job_goes_first_and_unpredicted_ones_last():
    asked = [request("none", 4, 4, seed=0), request("nine", 4, 9, seed=0, predicted_output=9),
             request("two", 4, 2, seed=0, predicted_output=2)]
    assert finishing_order("sjf", asked) == ["two", "nine", "none"]
    assert finishing_order("fcfs", asked) == ["none", "nine", "two"]


def test_the_important_one_takes_the_seat_of_a_lesser_one_that_runs():
    asked = [request("lesser", 4, 12, seed=0, priority=5), request("important", 4, 3, seed=1, priority=1, arrival=3)]
    assert finishing_order(Priority(), asked) == ["important", "lesser"]
    assert finishing_order(Priority(preemptive=False), asked) == ["lesser", "important"]


def test_equally_important_ones_never_push_each_other_out():
    run = drive(scheduler("priority", max_sequences=1), [request(name, 4, 6, seed=0) for name in range(4)])
    assert all(sequence.preemptions == 0 for sequence in run.sequences.values())


def test_least_slack_goes_first_and_hopeless_ones_last():
    asked = [request("easy", 4, 4, seed=0, deadline_ns=100), request("tight", 4, 4, seed=0, deadline_ns=20),
             request("hopeless", 4, 4, seed=0, deadline_ns=0), request("any", 4, 4, seed=0)]
    order = finishing_order(SloAware(prefill_ns_per_token=1), asked)
    assert order == ["tight", "easy", "any", "hopeless"]


def test_shedding_refuses_what_would_be_late_and_shows_it():
    asked = [request("busy", 4, 30, seed=0, deadline_ns=50), request("late", 4, 4, seed=0, deadline_ns=10)]
    run = drive(scheduler(SloAware(shed=True), max_sequences=1), asked)
    late = run.sequences["late"]
    assert late.status == "finished"  # it had the least slack, so it went first
    asked = [request("busy", 4, 30, seed=0, deadline_ns=5), request("late", 4, 4, seed=0, deadline_ns=10)]
    run = drive(scheduler(SloAware(shed=True), max_sequences=1), asked)
    late = run.sequences["late"]
    assert late.status == "refused" and "shed" in late.reason and late.finished_ns is not None
    assert "late" in {name for plan in run.plans for name in plan.refused}


def test_the_longest_cached_prefix_goes_first_until_patience_ends():
    def order(policy):
        served = scheduler(policy, blocks=60, max_sequences=1)
        return [e.sequence_id for e in drive(served, [
            request("seed", 16, 1, seed=1), request("cold", 16, 2, seed=2, arrival=1),
            *(request(f"warm {i}", 16, 2, seed=1, arrival=1) for i in range(3))]).events if e.kind == "finished"]

    assert order(CacheAware())[-1] == "cold"
    assert order(CacheAware(patience_ns=1)) == ["seed", "warm 0", "cold", "warm 1", "warm 2"]


@pytest.mark.parametrize(("limits", "reason"), [
    ({"max_sequences": 1}, ("batch full", None)), ({"blocks": 4}, ("no blocks", None)),
    ({"max_batched_tokens": 8}, ("behind prefill", "first"))])
def test_the_reason_names_what_ran_out(limits, reason):
    served = scheduler("chunked", **{"blocks": 40} | limits)
    for name in ("first", "second"):
        served.add(request(name, 12, 3))
    assert (served.schedule(0).held_back[0].reason, served.waiting[0].id) == (reason[0], "second")
    assert served.in_flight[0].held_back[0].blocker == reason[1]


def test_those_behind_one_that_lacks_blocks_name_it():
    served = scheduler("chunked", blocks=6)
    for name, prompt in (("a", 12), ("big", 16), ("small", 2)):
        served.add(request(name, prompt, 3))
    held_back = {h.sequence_id: (h.reason, h.blocker) for h in served.schedule(0).held_back}
    assert held_back == {"big": ("no blocks", None), "small": ("no blocks", "big")}


def test_asynchronous_scheduling_refills_a_seat_one_step_later():
    def starts(depth):
        run = drive(scheduler("chunked", max_sequences=1, steps_in_flight=depth),
                    [request("a", 4, 3, seed=0), request("b", 4, 3, seed=0)])
        steps = [i for i, plan in enumerate(run.plans) if "b" in plan.prefilling]
        return steps, [h.reason for plan in run.plans for h in plan.held_back if h.sequence_id == "a"]

    assert starts(1) == ([3], [])
    assert starts(2) == ([3], [])  # with nothing else to run there is no step to miss


def test_asynchronous_scheduling_keeps_the_seat_of_one_whose_last_token_is_in_flight():
    def plans(depth):
        return drive(scheduler("chunked", max_sequences=2, steps_in_flight=depth), [
            request("other", 4, 12, seed=0), request("a", 4, 3, seed=0), request("b", 4, 3, seed=0)]).plans

    for depth in (1, 2):
        started = next(i for i, plan in enumerate(plans(depth)) if "b" in plan.prefilling)
        assert started == 2 + depth
    assert ("a", "output in flight") in {(h.sequence_id, h.reason) for p in plans(2) for h in p.held_back}


def test_the_watermark_stays_free_for_those_who_run():
    served = scheduler("chunked", blocks=10, watermark=0.3)
    for name in range(3):
        served.add(request(name, 12, 3))
    plan = served.schedule(0)
    assert plan.running == 2 and plan.blocks_used == 6
    lone = scheduler("chunked", blocks=10, watermark=0.3)
    lone.add(request("whole pool", 38, 3))
    assert lone.schedule(0).running == 1


def test_admission_asks_for_the_whole_known_sequence_or_only_for_its_first_chunk():
    def running(reserve):
        served = scheduler("chunked", blocks=8, reserve_known=reserve, max_batched_tokens=20)
        for name, prompt in (("a", 16), ("b", 20)):
            served.add(request(name, prompt, 3))
        return served.schedule(0).running

    assert (running(True), running(False)) == (1, 2)
