"""The simulator and the engine decide alike: the same trace gives the same steps, block tables, preemptions and hits."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_infer_driving import POLICIES, text

from pycore.errors import InputError
from pycore.serving.limits import Limits
from pycore.simulation.costs.custom import LinearCost
from pycore.simulation.costs.work import StepWork
from pycore.simulation.records import StepRecord
from runtime.mini_infer import simulated
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.replay import Arrival, Step, Virtual, Wall, play
from runtime.mini_infer.simulated import differences, features, fitted

COST = LinearCost(source="a test", step=900.0, sequence=4.0, token=11.5, cached_token=0.21, prompt_pair=0.012, prompt_step=70.0)


@st.composite
def traces(draw):
    """Up to 12 requests within some 30 steps; prompts share prefixes, answers end early where tokens 0, 4, ... may end them."""
    return [Arrival(at_ns=draw(st.integers(0, 60)) * 500_000, generation=Generation(
        id=str(name), prompt=text(draw(st.integers(1, 70)), draw(st.integers(0, 2))), max_tokens=draw(st.integers(1, 20)),
        end=draw(st.sampled_from([(), tuple(range(0, 64, 16))])), priority=draw(st.integers(0, 2)),
        deadline_ns=draw(st.none() | st.integers(0, 40_000_000)))) for name in range(draw(st.integers(1, 12)))]


def engine_of(model, policy, draw):
    size = draw(st.sampled_from([8, 16]))
    least = -(-90 // size)
    limits = Limits(max_sequences=draw(st.integers(1, 8)), max_batched_tokens=draw(st.integers(4, 90)), max_model_length=128,
                    reserve_known=draw(st.booleans()))
    return Engine.of(model, blocks=least + draw(st.integers(0, least)), block_size=size, policy=policy, limits=limits,
                     prefix_caching=draw(st.booleans()))


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "slo_aware shed"])
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_told_how_long_steps_took_the_simulator_decides_as_the_engine_did(policy, data, pairs):
    """Every count, time, block table, copy and eviction of every step; first and last token, hits, preemptions of each request."""
    model, trace = pairs[data.draw(st.sampled_from(sorted(pairs)))][0], data.draw(traces())
    engine = engine_of(model, POLICIES[policy], data.draw)
    played = play(engine, trace, Virtual(COST))
    assert differences(engine, trace, played) == []
    assert sum(len(one.tokens) for one in played.requests) >= len([one for one in played.requests if one.finish != "refused"])


def fixed(count=14, seed=3):
    rng = random.Random(seed)
    at, found = 0, []
    for name in range(count):
        at += round(rng.expovariate(1 / 3e6))
        found.append(Arrival(at_ns=at, generation=Generation(id=str(name), prompt=text(20 + 5 * (name % 6), name % 2), max_tokens=16)))
    return found


def small(model):
    limits = Limits(max_sequences=8, max_batched_tokens=24, max_model_length=128, reserve_known=False)
    return Engine.of(model, blocks=18, block_size=8, limits=limits)


def test_what_is_compared_does_happen(pairs):
    engine = small(pairs["Qwen2"][0])
    played = play(engine, fixed(), Virtual(COST))
    assert differences(engine, fixed(), played) == []
    assert sum(one.preemptions for one in played.requests) > 0 and sum(one.cached_tokens for one in played.requests) > 0
    assert any(step.evicted for step in played.steps) and any(len(step.work.chunks) and step.work.decoding for step in played.steps)


def test_a_real_run_in_real_time_is_made_again_step_by_step(pairs):
    engine = small(pairs["Llama"][0])
    trace = [replace(one, at_ns=one.at_ns * 2) for one in fixed()]
    played = play(engine, trace, Wall())
    assert differences(engine, trace, played) == []
    assert all(one.record.end_ns <= two.record.start_ns for one, two in zip(played.steps, played.steps[1:], strict=False))
    assert [one.finish for one in played.requests] == ["length"] * 14
    assert all(one.arrival_ns < one.first_token_ns < one.last_token_ns <= played.makespan_ns for one in played.requests)


@pytest.mark.parametrize("change", ["a token more", "another block", "a later end", "a missing step", "a hit less"])
def test_a_difference_is_found_and_said(pairs, change):
    engine = small(pairs["Qwen3"][0])
    played = play(engine, fixed(), Virtual(COST))
    step = played.steps[5]
    item = step.items[0]
    changed = {
        "a token more": lambda: replace(step, record=step.record._replace(prefill_tokens=step.record.prefill_tokens + 1)),
        "another block": lambda: replace(step, items=(replace(item, block_table=(*item.block_table[:-1], 17 - item.block_table[-1])), *step.items[1:])),
        "a later end": lambda: replace(step, record=step.record._replace(blocks_cached=step.record.blocks_cached + 1)),
    }
    if change in changed:
        played = replace(played, steps=(*played.steps[:5], changed[change](), *played.steps[6:]))
        assert differences(engine, fixed(), played)[0].startswith("step 5: the engine")
    elif change == "a missing step":
        played = replace(played, steps=played.steps[:-1])
        assert "steps, the simulator" in differences(engine, fixed(), played)[0]
    else:
        hit = next(one for one in played.requests if one.cached_tokens)
        wrong = tuple(replace(one, cached_tokens=0) if one is hit else one for one in played.requests)
        assert differences(engine, fixed(), replace(played, requests=wrong))[0].startswith(f"{hit.id}: the engine's")


def steps_of(cost, works):
    return [Step(record=StepRecord(0, cost.step_ns(work), *[0] * 9), work=work, items=(), copies=(), evicted=(), preempted=())
            for work in works]


WORKS = [StepWork(decoding, decoding * context, context, chunks)
         for decoding in (0, 1, 4, 9) for context in (30, 200) for chunks in ((), ((64, 0),), ((17, 128), (9, 0)))
         if decoding or chunks]


def test_coefficients_are_found_again_from_the_steps_they_made():
    found = fitted(steps_of(COST, WORKS), "a test")
    for work in WORKS:
        assert found.step_ns(work) == pytest.approx(COST.step_ns(work), rel=1e-5)


def test_no_coefficient_is_negative_and_features_are_those_that_the_cost_model_multiplies():
    falling = [replace(one, record=one.record._replace(end_ns=3_000_000 - one.work.cached * 100)) for one in steps_of(COST, WORKS)]
    found = fitted(falling, "a test")
    assert all(getattr(found, name) >= 0 for name in simulated.COEFFICIENTS)
    for work in WORKS:
        names = dict(zip(simulated.COEFFICIENTS, features(work), strict=True))
        for name, count in names.items():
            assert LinearCost(source="", **{name: 1.0}).step_ns(work) == max(1, 1000 * count)


def test_what_a_cost_model_of_work_cannot_tell_is_refused(pairs):
    engine = Engine.of(pairs["Llama"][0], blocks=18, block_size=8, preemption="swap", host_blocks=4)
    with pytest.raises(InputError, match="swapping"):
        simulated.twin(engine, COST)
    with pytest.raises(InputError, match="at least one step"):
        fitted([], "nothing")
