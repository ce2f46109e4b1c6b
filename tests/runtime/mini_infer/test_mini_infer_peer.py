"""The reproduced defects of another engine of this name, one test each: here they do not happen. Numbers are those of the
list in which they were found; what concerns files, bfloat16 and sampling's edges is tested beside those."""

import gc
from dataclasses import replace
from itertools import count

import pytest
import torch
from mini_infer_driving import Run, drive, judge, take, text

from pycore.errors import InputError
from pycore.serving.blocks import BlockPool
from pycore.serving.limits import Limits
from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.scheduler import Scheduler
from runtime.mini_infer import engine as engine_module
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.sampling import Sampling
from runtime.mini_infer.speculation import Speculation


@pytest.fixture
def ours(pairs):
    return pairs["Qwen2"][0]


@pytest.fixture
def theirs(pairs):
    return pairs["Qwen2"][1]


def asked(name="a", length=20, seed=0, **more) -> Generation:
    return Generation(id=name, prompt=text(length, seed), **({"max_tokens": 8} | more))


def begun(engine: Engine, *generations: Generation) -> Run:
    run = Run(engine)
    for one in generations:
        enter(run, one)
    return run


def enter(run: Run, one: Generation) -> None:
    run.engine.add(one)
    run.texts[one.id], run.prompts[one.id] = list(one.prompt), len(one.prompt)


def finish(run: Run) -> Run:
    while not run.engine.idle:
        take(run)
    return run


@pytest.mark.parametrize("length", [31, 32, 33, 48], ids=lambda length: f"{length} tokens")
def test_peer_1_a_prefix_hit_changes_no_token(length, ours, theirs):
    engine = Engine.of(ours, blocks=32)
    run = drive(engine, [(0, asked("cold", length)), (30, asked("hit", length)), (60, asked("longer", length + 7))])
    judge(run, theirs)
    assert run.output("hit") == run.output("cold")
    assert engine.scheduler.hit_tokens >= 2 * ((length - 1) // 16 * 16) > 0


def test_peer_1_a_prompt_that_is_cached_whole_still_computes_its_last_token(ours, theirs):
    engine = Engine.of(ours, blocks=32)
    run = drive(engine, [(0, asked("cold", 32)), (30, asked("hit", 32))])
    assert run.output("hit") == run.output("cold") and judge(run, theirs)
    assert min(part.count for plan in run.plans for part in plan.parts) == 16  # 16 hit, not 32: the last block is computed


def test_peer_2_a_hit_writes_nothing_over_the_blocks_of_one_who_runs(ours, theirs):
    engine = Engine.of(ours, blocks=32)
    run = begun(engine, asked("a", 40, max_tokens=30))
    for _ in range(6):
        take(run)
    blocks = list(engine.scheduler.sequences["a"].block_table[:2])
    before = engine.cache.storage[:, :, blocks].clone()
    enter(run, asked("b", 40, max_tokens=30))
    enter(run, asked("c", 36, max_tokens=30))
    take(run)
    assert engine.scheduler.sequences["b"].block_table[:2] == blocks
    assert torch.equal(engine.cache.storage[:, :, blocks], before)
    judge(finish(run), theirs)
    assert run.output("a") == run.output("b")


def test_peer_3_the_prefix_cache_gives_its_blocks_back(ours, theirs):
    """Forty different prompts of 64 tokens through 64 blocks; the pool is used up by cached blocks long before the end."""
    def prompt(seed: int) -> tuple[int, ...]:
        return tuple((seed * 17 + i * (seed + 3) + i * i) % 64 for i in range(64))

    engine = Engine.of(ours, blocks=64)
    run = drive(engine, [(9 * name, Generation(id=str(name), prompt=prompt(name), max_tokens=4)) for name in range(40)])
    judge(run, theirs)
    assert len({prompt(name) for name in range(40)}) == 40
    assert sum(len(plan.evicted) for plan in run.plans) > 40
    assert all(end.finish == "length" for end in run.ends.values())


@pytest.mark.parametrize(("wrong", "field"), [
    ({"prompt": ()}, "prompt_tokens"), ({"prompt": text(200)}, "prompt"), ({"prompt": (1, 64)}, "prompt"), ({"prompt": (-1,)}, "prompt"),
    ({"end": (64,)}, "end"), ({"id": "a"}, "id"), ({"max_tokens": 60, "prompt": text(60)}, "prompt"),
    ({"min_tokens": 2, "end": tuple(range(64))}, "min_tokens")], ids=str)
def test_peer_4_a_bad_request_is_refused_and_the_next_one_is_served(wrong, field, ours, theirs):
    run = begun(Engine.of(ours, blocks=6), asked("a"))
    take(run)
    with pytest.raises(InputError) as caught:
        run.engine.add(Generation(**({"id": "bad", "prompt": text(5)} | wrong)))
    assert caught.value.field == field
    enter(run, asked("b", 30))
    judge(finish(run), theirs)
    assert len(run.output("a")) == len(run.output("b")) == 8


@pytest.mark.parametrize("prefix_caching", [True, False])
def test_peer_4_a_step_that_fails_ends_those_in_it_and_nobody_else(prefix_caching, ours, theirs, monkeypatch):
    engine = Engine.of(ours, blocks=32, prefix_caching=prefix_caching)
    run = begun(engine, asked("a", 40), asked("b", 40))
    take(run)

    def fails(*arguments):
        engine.cache.storage.fill_(torch.nan)  # whatever was half written
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "run", fails)
        ends = engine.step()
    assert {(one.id, one.finish) for one in ends} == {("a", "error"), ("b", "error")}
    assert all("out of memory" in one.reason for one in ends)
    assert engine.idle and engine.scheduler.check().used == 0 and engine.scheduler.check().cached == 0
    again = drive(engine, [(0, asked("a", 40)), (0, asked("c", 44))])  # their blocks are not found again, and hold no NaN
    assert judge(again, theirs) == 16


def test_peer_4_logits_that_are_not_finite_end_one_request_alone(ours, theirs, monkeypatch):
    """The model overflows for one token id only; its neighbours in the same steps do not notice."""
    engine = Engine.of(ours, blocks=24)
    run = begun(engine, asked("good", 20), asked("bad", 37, seed=1), asked("too", 25))
    held = run.engine.model.embedding[63].clone()
    engine.live["bad"].tokens[20] = 63
    assert not any(63 in run.texts[name] for name in ("good", "too"))
    monkeypatch.setattr(engine.model, "head", type(engine.model.head)(engine.model.embedding.clone()))
    try:
        engine.model.embedding[63] = torch.inf
        first = engine.step()
    finally:
        engine.model.embedding[63] = held
    assert [(one.id, one.reason) for one in first if one.finish] == [("bad", "its logits are not finite")]
    for one in first:
        if one.choice:
            run.texts[one.id].append(one.choice.token)
    run.ends["bad"] = first[0]
    assert torch.isfinite(engine.cache.storage).all()
    enter(run, Generation(id="later", prompt=text(37, 1), max_tokens=8))
    del run.texts["bad"]
    judge(finish(run), theirs)
    assert len(run.output("good")) == len(run.output("later")) == 8


def test_peer_4_a_clients_function_that_fails_ends_its_request_alone(ours, theirs):
    run = begun(Engine.of(ours, blocks=24), asked("good"), asked("bad", 20, stop_when=lambda token: 1 // 0))
    first = run.engine.step()
    assert [(one.id, one.finish) for one in first] == [("bad", "error"), ("good", None)]
    assert "ZeroDivisionError" in first[0].reason
    run.texts["good"].append(first[1].choice.token)
    del run.texts["bad"]
    judge(finish(run), theirs)
    assert len(run.output("good")) == 8


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_peer_5_and_6_memory_pressure_preempts_and_no_token_comes_twice(preemption, ours):
    """Fourteen blocks, four times 40 + 40 tokens, sampled: what came out stays, and what follows is what would have been."""
    def texts(blocks: int) -> tuple[dict, int]:
        engine = Engine.of(ours, blocks=blocks, preemption=preemption, host_blocks=20 if preemption == "swap" else 0,
                           limits=Limits(max_model_length=128, reserve_known=False), block_size=16)
        run = drive(engine, [(0, Generation(id=str(name), prompt=text(40, name), max_tokens=40,
                                            sampling=Sampling(temperature=0.8, top_p=0.9, seed=name))) for name in range(4)])
        return run.texts, sum(len(plan.preempted) for plan in run.plans)

    tight, preempted = texts(14)
    roomy, never = texts(40)
    assert preempted > 0 and never == 0
    assert tight == roomy and all(len(one) == 80 for one in tight.values())


@pytest.mark.parametrize("block_size", [1, 3, 8, 16, 32, 64])
def test_peer_7_every_block_size_gives_the_same_text(block_size, ours, theirs):
    run = drive(Engine.of(ours, blocks=400 // block_size, block_size=block_size), [(0, asked("a", 33)), (3, asked("b", 70)),
                                                                                  (5, asked("c", 33, max_tokens=20))])
    assert judge(run, theirs) == 36


def test_peer_9_an_abort_frees_its_blocks_at_once_and_saves_its_steps(ours):
    engine = Engine.of(ours, blocks=64)
    run = begun(engine, *(asked(str(name), 30, name, max_tokens=60) for name in range(8)), asked("last", 10, max_tokens=5))
    for _ in range(2):
        take(run)
    for name in range(8):
        assert engine.abort(str(name)) and not engine.abort(str(name))
        run.ends[str(name)] = None
    assert engine.scheduler.check().used == 1
    finish(run)
    assert len(run.output("last")) == 5 and engine.scheduler.steps == 5


def test_peer_11_ends_say_why_and_least_counts_and_ignored_ends_are_heeded(ours, theirs):
    engine = Engine.of(ours, blocks=40)
    plain = drive(engine, [(0, asked("a", 20, max_tokens=12))]).output("a")
    end = plain[4]
    first = plain.index(end)
    run = drive(engine, [(0, asked("ended", 20, max_tokens=12, end=(end,))),
                         (0, asked("ignored", 20, max_tokens=12, end=(end,), ignore_end=True)),
                         (0, asked("least", 20, max_tokens=12, end=(end,), min_tokens=first + 3)),
                         (0, asked("last allowed", 20, max_tokens=first + 1, end=(end,))),
                         (0, asked("told", 20, max_tokens=12, stop_when=Told(2)))])
    assert run.output("ended") == plain[:first + 1] and run.ends["ended"].finish == "stop"
    assert run.output("ignored") == plain and run.ends["ignored"].finish == "length"
    assert end not in run.output("least")[:first + 3] and len(run.output("least")) >= first + 3
    assert run.ends["last allowed"].finish == "stop"
    assert run.output("told") == plain[:2] and run.ends["told"].finish == "stop"


class Told:
    """Says stop at its so many-th token."""

    def __init__(self, at: int):
        self.at, self.seen = at, 0

    def __call__(self, token: int) -> bool:
        self.seen += 1
        return self.seen == self.at


def test_peer_14_no_tokens_asked_gives_none_and_the_context_is_a_limit(ours):
    with pytest.raises(InputError, match="max tokens"):
        asked(max_tokens=0)
    with pytest.raises(InputError, match="min tokens"):
        asked(min_tokens=9)
    with pytest.raises(InputError, match="context"):
        Engine.of(ours, blocks=40, limits=Limits(max_model_length=129))
    run = drive(Engine.of(ours, blocks=40), [(0, asked("a", 120, max_tokens=50))])
    assert len(run.texts["a"]) == 128 and run.ends["a"].finish == "length"
    with pytest.raises(InputError, match="leaves no room"):
        Engine.of(ours, blocks=40).add(asked("b", 128))


def test_peer_15_prompts_that_wait_do_not_hold_up_those_who_decode(ours, theirs):
    """A step computes at most its budget, whoever waits, and everybody who decodes gets a token in every step."""
    engine = Engine.of(ours, blocks=80, limits=Limits(chunk_budget=16, max_model_length=128))
    run = begun(engine, asked("early", 8, max_tokens=30))
    take(run)
    for name in range(4):
        enter(run, asked(str(name), 64, name + 1))
    while "early" not in run.ends:
        assert "early" in {one.id for one in take(run)}
    judge(finish(run), theirs)
    assert max(plan.tokens for plan in run.plans) == 16


def test_peer_16_keys_and_values_are_kept_once(ours):
    """Nothing that a step made outlives it: with two prompts under way the memory of all tensors is what it was with none."""
    def held() -> int:
        gc.collect()
        stores = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in gc.get_objects()
                  if type(one) is torch.Tensor}
        return sum(stores.values())

    engine = Engine.of(ours, blocks=40)
    finish(begun(engine, asked("first", 20)))
    before = held()
    run = begun(engine, asked("a", 60, max_tokens=20), asked("b", 33, 1, max_tokens=20))
    for _ in range(6):
        take(run)
        assert abs(held() - before) < engine.cache.bytes_per_block  # the prompts' keys and values fill six of them
    one = ours.configuration
    assert engine.cache.storage.nbytes == 40 * engine.cache.bytes_per_block == 40 * 2 * 16 * one.layers * one.kv_heads * one.head_width * 4
    finish(run)


def test_peer_17_guessing_reads_each_position_once(ours, theirs, monkeypatch):
    """The other engine's guesser had no cache: it read its whole text again for every token, and so did the check of its
    guesses. Counted is what goes through either model, not how long that takes."""
    draft, read = replace(ours), {}
    before = type(ours).hidden

    def hidden(model, tokens, *more):
        read[id(model)] = read.get(id(model), 0) + len(tokens)
        return before(model, tokens, *more)

    monkeypatch.setattr(type(ours), "hidden", hidden)
    engine = Engine.of(ours, blocks=40, speculation=Speculation(tokens=4, draft=draft))
    run = drive(engine, [(0, asked("a", 40, max_tokens=40))])
    assert judge(run, theirs) == 40
    assert run.ends["a"].usage.acceptance == 1
    for model in (ours, draft):
        assert 79 <= read[id(model)] <= 80 + 5  # the last token is not read; the last guesses may go beyond it


def test_forks_share_blocks_until_they_write_and_draw_for_themselves(ours, theirs):
    engine = Engine.of(ours, blocks=40)
    run = begun(engine, asked("a", 36, max_tokens=20, sampling=Sampling(seed=1)))
    for _ in range(3):
        take(run)
    for name, seed in (("b", 2), ("c", 2), ("greedy", None)):
        engine.fork("a", name, Sampling(seed=seed) if seed else Sampling(temperature=0))
        run.texts[name], run.prompts[name] = list(run.texts["a"]), 36
    assert engine.scheduler.check().used == 3
    finish(run)
    assert run.texts["b"] == run.texts["c"] != run.texts["a"]
    for name in ("a", "b", "c"):
        del run.texts[name]
    run.prompts["greedy"] += 3
    assert judge(run, theirs) == 17


def test_a_fork_knows_what_was_said_before_it(ours):
    """Penalties and least counts go on where the parent was: the fork says what one says who was never forked."""
    engine = Engine.of(ours, blocks=40)
    one = Sampling(temperature=0, presence_penalty=2, frequency_penalty=2)
    end = tuple(range(0, 64, 2))
    run = begun(engine, asked("a", 36, max_tokens=20, sampling=one, end=end, min_tokens=6))
    for _ in range(4):
        take(run)
    engine.fork("a", "b")
    run.texts["b"], run.prompts["b"] = list(run.texts["a"]), 36
    finish(run)
    assert run.texts["a"] == run.texts["b"] and run.ends["b"].finish == "stop"
    plain = drive(Engine.of(ours, blocks=40), [(0, asked("a", 36, max_tokens=20))]).output("a")
    assert len(set(run.output("a"))) > len(set(plain[:len(run.output("a"))]))


def test_schedulers_that_an_engine_cannot_follow_are_refused(ours):
    for options, limits in (({}, {"steps_in_flight": 2}), ({"hands_over": True}, {})):
        with pytest.raises(InputError, match="one step at a time"):
            Engine(ours, Scheduler(Fcfs(), BlockPool(8), Limits(max_model_length=64, **limits), **options))
    with pytest.raises(InputError, match="as many as memory holds"):
        Cache(ours.configuration, 1 << 45, 16)


def test_the_same_requests_give_the_same_steps_again(ours):
    def plans() -> list:
        clock = count()
        engine = Engine.of(ours, blocks=12, block_size=8, clock=lambda: next(clock), limits=Limits(chunk_budget=9, max_model_length=90))
        run = drive(engine, [(at, asked(str(at), 20 + at, at % 2, max_tokens=20)) for at in range(5)])
        return [(plan.items, plan.preempted, plan.evicted) for plan in run.plans]

    assert plans() == plans()
