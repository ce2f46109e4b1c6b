"""Laws that hold for every policy, on random traces, with pools down to a few blocks, forks, aborts and early stops."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_driving import ARRIVAL_ORDER, POLICIES, drive, oracle, request, scheduler

SETTINGS = settings(max_examples=60)


@st.composite
def requests(draw, most=9, shared=True):
    count = draw(st.integers(1, most))
    return [request(
        name, draw(st.integers(1, 24)), draw(st.integers(1, 14)), arrival=draw(st.integers(0, 12)),
        seed=draw(st.integers(0, 2)) if shared else None, priority=draw(st.integers(0, 2)),
        deadline_ns=draw(st.none() | st.integers(0, 40)), predicted_output=draw(st.none() | st.integers(1, 14)))
        for name in range(count)]


@st.composite
def engines(draw, **fixed):
    swap = draw(st.booleans())
    options = {
        "blocks": draw(st.integers(3, 40)), "block_size": draw(st.sampled_from([1, 2, 4])),
        "caching": draw(st.booleans()), "null_block": draw(st.booleans()), "watermark": draw(st.sampled_from([0.0, 0.25])),
        "preemption": "swap" if swap else "recompute", "host_blocks": draw(st.integers(1, 12)) if swap else 0,
        "max_sequences": draw(st.integers(1, 6)), "max_batched_tokens": draw(st.integers(1, 30)),
        "chunk_budget": draw(st.none() | st.integers(1, 12)), "max_model_length": draw(st.sampled_from([20, 1000])),
        "reserve_known": draw(st.booleans()), "steps_in_flight": draw(st.sampled_from([1, 2]))}
    return options | fixed


def actions():
    kinds = st.sampled_from(["abort", "fork"])
    return st.lists(st.tuples(st.integers(0, 30), kinds, st.integers(0, 8).map(str)), max_size=5)


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(data=st.data())
def test_every_request_ends_with_the_tokens_it_would_have_alone(policy, data):
    """No token is lost, doubled or changed by hits, copies, preemptions, swaps; no block leaks; nothing gets stuck."""
    served = scheduler(policy, **data.draw(engines()))
    asked = data.draw(requests())
    stops = data.draw(st.dictionaries(st.integers(0, 8).map(str), st.integers(1, 6), max_size=3))
    run = drive(served, asked, actions=data.draw(actions()), stops=stops)
    for sequence in run.sequences.values():
        assert sequence.tokens == oracle(sequence.request.token_ids, len(sequence.tokens))
        assert sequence.generated == len(sequence.tokens) == len(sequence.token_times_ns())
        assert sequence.token_times_ns() == sorted(sequence.token_times_ns())
        if sequence.status == "finished":
            wanted = min(sequence.target, max(1, stops.get(sequence.id, 10**9)))
            assert sequence.generated == wanted and sequence.token_times_ns()[-1] == sequence.finished_ns
            assert sequence.token_times_ns()[0] == sequence.first_token_ns
        else:
            assert sequence.reason
    census = served.check()
    assert census.used == 0 and census.cached + census.blank == census.total
    assert served.memory.host is None or served.memory.host.used == 0


@pytest.mark.parametrize("policy", ["fcfs", "chunked", "priority"])
@settings(max_examples=150)
@given(data=st.data())
def test_swaps_and_copies_of_one_step_can_be_executed_in_order(policy, data):
    """Pools so small that prompts are swapped half computed, and in and out in the same step."""
    served = scheduler(policy, **data.draw(engines(
        blocks=data.draw(st.integers(6, 12)), block_size=2, caching=False, null_block=False, watermark=0.0,
        preemption="swap", host_blocks=data.draw(st.integers(4, 16)), reserve_known=False, max_model_length=1000,
        max_batched_tokens=data.draw(st.integers(2, 6)), chunk_budget=None)))
    run = drive(served, data.draw(requests()), actions=data.draw(actions()))
    for sequence in run.sequences.values():
        assert sequence.tokens == oracle(sequence.request.token_ids, sequence.generated)


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(data=st.data())
def test_nothing_is_refused_but_what_can_never_run(policy, data):
    served = scheduler(policy, **data.draw(engines()))
    run = drive(served, [request(r.id, r.prompt_tokens, r.output_tokens, arrival=r.arrival_ns, seed=1)
                         for r in data.draw(requests())])
    for sequence in run.sequences.values():
        prompt, most = sequence.prompt_tokens, served.limits.max_model_length
        reach = min(prompt + sequence.request.output_tokens, most) - 1
        possible = prompt < most and -(-reach // served.pool.block_size) <= served.pool.total
        assert (sequence.status == "finished") == possible


@pytest.mark.parametrize("policy", ARRIVAL_ORDER)
@SETTINGS
@given(data=st.data())
def test_in_order_of_arrival_nobody_is_overtaken(policy, data):
    served = scheduler(policy, **data.draw(engines()))
    run = drive(served, data.draw(requests()))
    started = [s.first_scheduled_ns for s in sorted(run.sequences.values(), key=lambda s: s.serial)
               if s.status == "finished"]
    assert started == sorted(started)


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(data=st.data())
def test_work_is_conserved(policy, data):
    """Every token of every sequence is computed once, and again only after a preemption gave its blocks away."""
    served = scheduler(policy, **data.draw(engines()))
    run = drive(served, data.draw(requests(shared=False)), tokens=False)
    for sequence in run.sequences.values():
        if sequence.status == "finished":
            needed = sequence.prompt_tokens + sequence.generated - 1
            assert run.engine.computed[sequence.id] == needed + sequence.recomputed_tokens
            assert sequence.recomputed_tokens == 0 or sequence.preemptions > 0
            assert sequence.cached_tokens == 0


@pytest.mark.parametrize("policy", ["chunked", "cache_aware", "slo_aware", "priority"])
@SETTINGS
@given(data=st.data())
def test_a_step_is_full_or_says_what_ran_out(policy, data):
    """Whoever waits behind a step with tokens and seats to spare lacks blocks, and nothing else."""
    served = scheduler(policy, **data.draw(engines(caching=False, watermark=0.0)))
    run = drive(served, data.draw(requests()))
    for plan in run.plans:
        if plan.waiting and plan.tokens < served.limits.step_tokens and plan.running < served.limits.max_sequences:
            assert {hold.reason for hold in plan.held_back} <= {"no blocks", "KV in flight", "output in flight"}


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(data=st.data())
def test_the_same_run_again_and_two_schedulers_share_nothing(policy, data):
    options, asked, acted = data.draw(engines()), data.draw(requests()), data.draw(actions())
    other = scheduler("chunked", blocks=8)
    other.add(request("bystander", 12, 8, seed=0))

    def record(between=lambda: None):
        served = scheduler(policy, **options)
        run = drive(served, asked, actions=acted)
        between()
        return [(plan.items, plan.held_back, plan.preempted, plan.copies, plan.evicted) for plan in run.plans]

    def disturb():
        if not other.idle:
            other.complete(other.schedule(0), 0)

    first = record(disturb)
    assert record(disturb) == first == record()
