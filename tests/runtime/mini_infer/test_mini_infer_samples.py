"""Several samples of one prompt: computed once, each with its own first token; each is what a request alone would say."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_infer_driving import POLICIES, text

from pycore.errors import InputError
from pycore.serving.limits import Limits
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.generation import Output
from runtime.mini_infer.sampling import Sampling


@pytest.fixture
def ours(pairs):
    return pairs["Qwen2"][0]


def finish(engine: Engine, aborts=()) -> dict[str, list[Output]]:
    """Run to the end; outputs by sample. `aborts`: (step, id)."""
    found: dict[str, list[Output]] = {}
    for step in range(3000):
        for _, name in (one for one in aborts if one[0] == step):
            engine.abort(name)
        for one in engine.step():
            assert not (one.id in found and found[one.id][-1].finish), f"{one.id} has ended before"
            found.setdefault(one.id, []).append(one)
        engine.scheduler.check()
        if engine.idle:
            break
    assert engine.idle and not engine.live and engine.scheduler.check().used == 0
    return found


def tokens(outputs: list[Output]) -> list[int]:
    return [one.choice.token for one in outputs if one.choice]


def alone(ours, one: Generation, sample: int) -> list[int]:
    """What a request of one sample with that sample's seed says, with the engine to itself."""
    engine = Engine.of(ours, blocks=40)
    engine.add(one.sample(sample))
    return tokens(finish(engine)[one.sample(sample).id])


def test_the_prompt_is_computed_once_and_its_blocks_are_shared(ours):
    engine = Engine.of(ours, blocks=40)
    engine.add(Generation(id="a", prompt=text(40), max_tokens=6, samples=5, sampling=Sampling(seed=1)))
    first = engine.step()
    assert [one.id for one in first] == ["a", "a/1", "a/2", "a/3", "a/4"]
    assert {one.request for one in first} == {"a"} and [one.sample for one in first] == [0, 1, 2, 3, 4]
    assert len({one.choice.token for one in first}) > 1, "each draws a first token of its own"
    assert engine.last_plan.tokens == 40 and engine.scheduler.check().used == 3
    engine.step()
    assert engine.last_plan.tokens == 5 and len(engine.last_plan.copies) == 4
    assert engine.scheduler.check().used == 7  # two full blocks for all, and five of their own
    finish(engine)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_every_sample_is_what_a_request_alone_would_be(data, ours):
    """Whatever the policy, the seats and the pool: hits, copies, preemptions and waiting change no sample."""
    draw = data.draw
    swap = draw(st.booleans())
    limits = Limits(max_sequences=draw(st.integers(1, 8)), max_batched_tokens=draw(st.integers(1, 60)), max_model_length=128,
                    reserve_known=draw(st.booleans()))
    engine = Engine.of(ours, blocks=draw(st.integers(8, 24)), block_size=8, limits=limits,
                       policy=POLICIES[draw(st.sampled_from(sorted(set(POLICIES) - {"slo_aware shed"})))],
                       prefix_caching=draw(st.booleans()), preemption="swap" if swap else "recompute",
                       host_blocks=draw(st.integers(1, 12)) if swap else 0)
    asked = [Generation(id=name, prompt=text(draw(st.integers(1, 34)), draw(st.integers(0, 1))), samples=draw(st.integers(1, 5)),
                        max_tokens=draw(st.integers(1, 20)), sampling=Sampling(seed=draw(st.integers(0, 5)), temperature=0.8),
                        end=draw(st.sampled_from([(), tuple(range(0, 64, 6))]))) for name in ("a", "b")]
    for one in asked:
        engine.add(one)
    aborts = draw(st.lists(st.tuples(st.integers(0, 20), st.sampled_from(["a", "b", "a/1", "b/2"])), max_size=2))
    found = finish(engine, aborts)
    aborted = {name for _, name in aborts}
    for one in asked:
        for sample, name in enumerate(one.ids()):
            said, wanted = tokens(found.get(name, [])), alone(ours, one, sample)
            if name in found and found[name][-1].finish:
                assert said == wanted
                assert found[name][-1].finish == ("stop" if said[-1] in one.end else "length")
                assert found[name][-1].usage.output_tokens == len(said)
            else:
                assert {name, one.id} & aborted and said == wanted[:len(said)]


def test_greedy_samples_are_all_alike(ours):
    engine = Engine.of(ours, blocks=40)
    engine.add(Generation(id="a", prompt=text(33), max_tokens=9, samples=3))
    found = finish(engine)
    assert len({tuple(tokens(outputs)) for outputs in found.values()}) == 1 and len(found) == 3


def test_one_whose_first_token_is_its_last_does_not_end_the_others(ours):
    one = Generation(id="a", prompt=text(20), max_tokens=8, samples=4, sampling=Sampling(seed=3))
    firsts = [alone(ours, one, sample)[0] for sample in range(4)]
    for sample, first in enumerate(firsts):
        engine = Engine.of(ours, blocks=40)
        engine.add(Generation(id="a", prompt=text(20), max_tokens=8, samples=4, sampling=Sampling(seed=3), end=(first,)))
        found = finish(engine)
        assert found[one.ids()[sample]][0].finish == "stop"
        assert {len(tokens(found[name])) == 1 for name, said in zip(one.ids(), firsts, strict=True) if said == first} == {True}
    engine = Engine.of(ours, blocks=40)
    engine.add(Generation(id="a", prompt=text(20), max_tokens=1, samples=4))
    assert [one.finish for outputs in finish(engine).values() for one in outputs] == ["length"] * 4
    assert engine.statistics().steps == 1


def test_stops_of_its_own_for_each_sample(ours):
    said: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def stop(sample: int):
        def when(token: int) -> bool:
            said[sample].append(token)
            if sample == 1:
                raise RuntimeError("the client's fault")
            return len(said[sample]) == 2 + sample
        return when

    engine = Engine.of(ours, blocks=40)
    engine.add(Generation(id="a", prompt=text(20), max_tokens=9, samples=3, sampling=Sampling(seed=1),
                          stop_when=tuple(stop(sample) for sample in range(3))))
    found = finish(engine)
    assert tokens(found["a"]) == said[0] and len(said[0]) == 2 and tokens(found["a/2"]) == said[2] and len(said[2]) == 4
    assert found["a/1"][0].finish == "error" and "the client's fault" in found["a/1"][0].reason and len(found["a/1"]) == 1
    assert engine.statistics().finished == {"stop": 2, "error": 1}


def test_aborts_of_all_and_of_one_before_and_after_the_first_token(ours):
    def begun(steps: int) -> Engine:
        engine = Engine.of(ours, blocks=40)
        engine.add(Generation(id="a", prompt=text(20), max_tokens=9, samples=3))
        for _ in range(steps):
            engine.step()
        return engine

    for steps in (0, 1, 3):
        engine = begun(steps)
        assert engine.abort("a") and engine.idle and not engine.live and not engine.abort("a")
        assert engine.statistics().finished == {"aborted": 3}
        engine = begun(steps)
        assert engine.abort("a/1") and not engine.abort("a/1")
        assert set(finish(engine)) == {"a", "a/2"}


def test_ids_of_samples_are_taken_while_any_of_them_is_under_way(ours):
    engine = Engine.of(ours, blocks=40)
    engine.add(Generation(id="a", prompt=text(20), max_tokens=9, samples=3))
    for name, samples in (("a", 1), ("a/2", 1), ("a", 2)):
        with pytest.raises(InputError, match="id"):
            engine.add(Generation(id=name, prompt=text(5), samples=samples))
    engine.step()
    with pytest.raises(InputError, match="new id"):
        engine.fork("a", "a/1")
    finish(engine)
    engine.add(Generation(id="a", prompt=text(5)))


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"samples": 129}, {"samples": 2, "stop_when": lambda token: False}], ids=["none", "too many", "one stop for two"])
def test_samples_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError) as caught:
        Generation(id="a", prompt=(1,), **wrong)
    assert caught.value.field == list(wrong)[-1]


def test_usage_and_statistics_count_what_was_done(ours):
    engine = Engine.of(ours, blocks=12, block_size=8, limits=Limits(max_model_length=128, max_batched_tokens=40,
                                                                         reserve_known=False))
    for name in range(3):
        engine.add(Generation(id=str(name), prompt=text(33, name % 2), max_tokens=20))
    usages, ends, steps, preempted = {}, Counter(), 0, 0
    while not engine.idle:
        outputs = engine.step()
        steps, preempted = steps + 1, preempted + len(engine.last_plan.preempted)
        usages |= {one.id: one.usage for one in outputs if one.finish}
        ends.update(one.finish for one in outputs if one.finish)
        now, census = engine.statistics(), engine.scheduler.check()
        assert (now.blocks, now.blocks_used, now.blocks_cached) == (census.total, census.used, census.cached)
        assert now.pool_usage == census.used / 12 and now.running + now.waiting == len(engine.live)
    assert preempted > 0 and sum(one.preemptions for one in usages.values()) == preempted == now.preemptions
    assert {(one.prompt_tokens, one.output_tokens) for one in usages.values()} == {(33, 20)}
    assert sum(one.cached_tokens for one in usages.values()) == now.cached_tokens >= 32 and now.prompt_tokens == 99
    assert (now.output_tokens, now.finished, now.steps) == (60, dict(ends), steps)
    assert now.acceptance is None and now.hit_rate == now.cached_tokens / 99
