"""Many steps at once give what single steps give."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_driving import POLICIES, request, scheduler
from test_serving_laws import engines, requests

from pycore.serving.sequence import Sequence


def state(served, sequences):
    """Everything a driver could see."""
    def of(sequence: Sequence):
        return (sequence.status, sequence.computed, sequence.known, sequence.generated, sequence.block_table,
                sequence.token_times_ns(), sequence.finished_ns, sequence.preemptions, sequence.cached_tokens)

    return (served.steps, served.decodes.tick, served.decodes.context, served.decodes.longest, list(served.pool.queue),
            sorted(map(str, served.pool.cache.nodes)), [of(sequence) for sequence in sequences])


def run(served, asked, *, stretch):
    """Step k ends at 10 k + 10. With `stretch`, quiet stretches run at once, up to the next arrival."""
    sequences, todo, clock, log, used, quiet = [], sorted(asked, key=lambda r: r.arrival_ns), 0, [], [], 0
    while todo or not served.idle:
        while todo and todo[0].arrival_ns * 10 <= clock:
            sequences.append(served.add(todo.pop(0), clock))
        steps = served.quiet_steps() if stretch else 0
        if todo:
            steps = min(steps, max(0, -(-(todo[0].arrival_ns * 10 - clock) // 10)))
        if steps:
            members, context = len(served.decodes), served.decodes.context
            done = served.advance(range(clock + 10, clock + 10 * steps + 10, 10))
            log += [(members, context + members * i) for i in range(steps)]
            used += done.blocks_used
            clock, quiet = clock + 10 * steps, quiet + steps
            assert all(event.at_ns == clock for event in done.events)
        else:
            plan = served.schedule(clock)
            clock += 10
            if not plan.empty:
                log.append((plan.decode_count, plan.decode_context) if not plan.prefill_tokens else plan.prefill_chunks)
                used.append(plan.blocks_used)
                served.complete(plan, clock)
        served.check()
    return state(served, sequences), log, used, quiet


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=40)
@given(data=st.data())
def test_quiet_stretches_equal_single_steps(policy, data):
    options = data.draw(engines(steps_in_flight=1))
    asked = data.draw(requests(shared=data.draw(st.booleans())))
    single = run(scheduler(policy, **options), asked, stretch=False)
    many = run(scheduler(policy, **options), asked, stretch=True)
    assert many[:3] == single[:3]


def test_who_waits_for_tokens_alone_pushes_out_when_decodes_have_taken_its_blocks():
    options = {"blocks": 6, "caching": False, "max_sequences": 2, "max_batched_tokens": 1}
    asked = [request("late", 1, 1, arrival=1, priority=0), request("early", 9, 14, priority=1)]
    single = run(scheduler("priority", **options), asked, stretch=False)
    assert run(scheduler("priority", **options), asked, stretch=True)[:3] == single[:3]
    assert single[0][-1][0][7] == 1, "the early one is preempted"


def seen(plan):
    """All that a plan says, with names for sequences."""
    return (plan.items, plan.held_back, plan.step, plan.tick, plan.decode_count, plan.decode_context, plan.decode_longest,
            plan.prefill_tokens, plan.evicted, plan.blocks_used, plan.running, plan.waiting,
            [sequence.id for sequence in plan.finishing], plan.empty)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_quiet_step_is_planned_as_any_other(policy, data):
    options = data.draw(engines(steps_in_flight=1))
    asked = sorted(data.draw(requests(shared=data.draw(st.booleans()))), key=lambda r: r.arrival_ns)
    twins, clock, todo = [scheduler(policy, **options) for _ in range(2)], 0, list(asked)
    while todo or not twins[0].idle:
        while todo and todo[0].arrival_ns * 10 <= clock:
            for twin in twins:
                twin.add(todo[0], clock)
            todo.pop(0)
        long, short = twins
        assert long.quiet_steps() == short.quiet_steps()
        plans = long.schedule(clock), short.schedule_quiet() if short.quiet_steps() else short.schedule(clock)
        assert seen(plans[0]) == seen(plans[1])
        clock += 10
        if not plans[0].empty:
            assert long.complete(plans[0], clock) == short.complete(plans[1], clock)
        short.check()
    assert state(long, []) == state(short, [])


def test_a_step_that_is_not_quiet_is_not_planned_as_one():
    served = scheduler("chunked", blocks=30)
    served.add(request("a", 4, 6))
    with pytest.raises(ValueError, match="not quiet"):
        served.schedule_quiet()


def test_most_steps_of_a_long_decode_are_quiet():
    asked = [request(name, 5 + name, 400) for name in range(4)]
    *_, quiet = run(scheduler("chunked", blocks=500), asked, stretch=True)
    assert quiet > 380


def test_more_steps_than_are_quiet_are_refused():
    served = scheduler("chunked", blocks=30)
    served.add(request("a", 4, 6))
    assert served.quiet_steps() == 0
    for clock in range(2):
        served.complete(served.schedule(clock), clock + 1)
    assert served.quiet_steps() == 4
    for count in (0, 9):
        with pytest.raises(ValueError, match="are not quiet"):
            served.advance(range(count))
    served.add(request("b", 4, 6))
    assert served.quiet_steps() == 0
