"""Guesses change no text: greedy against `transformers` under any schedule; and they save passes of the model."""

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_infer_driving import POLICIES, drive, judge, text
from test_mini_infer_equality import actions, arrivals, engines
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from pycore.errors import InputError
from pycore.serving.limits import Limits
from runtime.mini_infer import acceptance
from runtime.mini_infer import engine as engine_module
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.drafts import DraftModel, Index
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.sampling import Sampling
from runtime.mini_infer.speculation import Speculation
from runtime.mini_infer.step import batch, forward

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.fixture
def ours(pairs):
    return pairs["Qwen2"][0]


@pytest.fixture
def theirs(pairs):
    return pairs["Qwen2"][1]


def passes(model, monkeypatch) -> list[int]:
    """Tokens of each pass of a model from now on."""
    seen: list[int] = []
    real = type(model).hidden

    def counted(self, tokens, positions, attend):
        if self is model:
            seen.append(len(tokens))
        return real(self, tokens, positions, attend)

    monkeypatch.setattr(type(model), "hidden", counted)
    return seen


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=8, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_greedy_text_is_that_of_transformers_under_any_schedule(policy, data, pairs):
    """Draft models that are right and ones that are wrong, look-ups; forks, aborts, stops, swaps, pools down to one text."""
    names = sorted(pairs)
    ours, theirs = pairs[data.draw(st.sampled_from(names))]
    plain = data.draw(engines(ours, POLICIES[policy]))
    speculation = Speculation(tokens=data.draw(st.integers(1, 6)), longest=data.draw(st.integers(1, 4)),
                              draft=data.draw(st.sampled_from([None, ours, pairs["Llama"][0]])))
    scheduler = plain.scheduler
    engine = Engine.of(ours, blocks=scheduler.pool.total, block_size=scheduler.pool.block_size, policy=scheduler.policy,
                       limits=scheduler.limits, prefix_caching=scheduler.pool.prefix_caching,
                       host_blocks=scheduler.memory.host.total if scheduler.memory.host else 0, clock=plain.clock,
                       preemption="swap" if scheduler.memory.host else "recompute", speculation=speculation)
    run = drive(engine, data.draw(arrivals()), data.draw(actions()))
    judge(run, theirs)
    for name, end in run.ends.items():
        assert end.finish in ("stop", "length", "aborted") or end.finish == "refused" and policy == "slo_aware shed", end
        assert end.finish in ("aborted", "refused") or run.output(name)
    now = engine.statistics()
    cut = sum(end.finish == "stop" for end in run.ends.values())  # after a stop, a guess that was right is in vain too
    assert 0 <= now.wasted - (now.drafted - now.accepted) <= cut and now.accepted <= now.drafted


@pytest.mark.parametrize("sampling", [
    Sampling(temperature=0, repetition_penalty=1.7), Sampling(temperature=0, presence_penalty=1.5, frequency_penalty=0.5),
    Sampling(temperature=0, logprobs=3), Sampling(temperature=0)], ids=["repetition", "presence", "logprobs", "ends"])
@pytest.mark.parametrize("draft", ["lookup", "itself", "other"])
def test_penalties_logprobs_least_counts_and_stops_are_those_without_guesses(draft, sampling, pairs):
    ours = pairs["Qwen2"][0]
    speculation = Speculation(draft={"lookup": None, "itself": ours, "other": pairs["Llama"][0]}[draft])

    def said(speculation: Speculation | None):
        engine = Engine.of(ours, blocks=60, speculation=speculation)
        stop = iter(range(1, 40))
        for one in (Generation(id="a", prompt=text(20) * 2, max_tokens=30, sampling=sampling),
                    Generation(id="b", prompt=text(9), max_tokens=30, min_tokens=7, end=tuple(range(0, 64, 3)), sampling=sampling),
                    Generation(id="c", prompt=text(9, 1), max_tokens=30, sampling=sampling, stop_when=lambda token: next(stop) == 12)):
            engine.add(one)
        found: dict[str, list] = {}
        while not engine.idle:
            for one in engine.step():
                found.setdefault(one.id, []).append(one)
        return found, engine.statistics()

    (plain, _), (guessed, now) = said(None), said(speculation)
    assert now.drafted > 0
    for name, outputs in plain.items():
        assert [one.choice.token for one in guessed[name]] == [one.choice.token for one in outputs]
        assert [one.finish for one in guessed[name]] == [one.finish for one in outputs]
        for one, other in zip(guessed[name], outputs, strict=True):
            assert [token for token, _ in one.choice.top] == [token for token, _ in other.choice.top]
            assert one.choice.logprob == pytest.approx(other.choice.logprob, abs=1e-4)
    assert len(plain["c"]) == 12 and guessed["c"][-1].finish == "stop"


# What peers got wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [1, 3, 4, 7])
def test_peer_17_a_draft_that_is_always_right_saves_the_passes_that_it_should(tokens, ours, theirs, monkeypatch):
    """k right guesses a step: the model runs once for k + 1 tokens, on k + 1 tokens and not on the whole text."""
    plain = drive(Engine.of(ours, blocks=20), [(0, Generation(id="a", prompt=text(20), max_tokens=41))])
    copy = replace(ours)  # so that its passes are told from the model's own
    engine = Engine.of(ours, blocks=20, speculation=Speculation(tokens=tokens, draft=copy))
    seen = passes(ours, monkeypatch)
    run = drive(engine, [(0, Generation(id="a", prompt=text(20), max_tokens=41))])
    assert run.texts == plain.texts and judge(run, theirs) == 41
    steps = -(-40 // (tokens + 1))
    assert seen == [20] + [tokens + 1] * (steps - 1) + [40 - (steps - 1) * (tokens + 1)] and len(plain.plans) == 41
    assert engine.drafter.forwards <= 1 + steps * (tokens + 1)  # a pass a guess, and one to read the last of them
    usage = run.ends["a"].usage
    assert usage.acceptance == 1.0 and usage.drafted == 40 - steps and engine.statistics().wasted == 0


def test_peer_17_guesses_that_are_all_wrong_cost_no_pass_of_the_model(pairs, monkeypatch):
    ours, theirs = pairs["Qwen2"]
    asked = [(0, Generation(id=str(name), prompt=text(20, name), max_tokens=30)) for name in range(3)]
    plain = drive(Engine.of(ours, blocks=40), asked)
    engine = Engine.of(ours, blocks=40, speculation=Speculation(tokens=4, draft=pairs["Llama"][0]))
    seen = passes(ours, monkeypatch)
    run = drive(engine, asked)
    assert run.texts == plain.texts and judge(run, theirs) == 90
    assert len(seen) <= len(plain.plans) == 30
    now = engine.statistics()
    assert now.wasted == now.drafted - now.accepted > 0


def test_peer_17_a_text_that_repeats_itself_needs_no_draft_model(ours, theirs, monkeypatch):
    engine = Engine.of(ours, blocks=40, speculation=Speculation(tokens=4))
    plain = drive(Engine.of(ours, blocks=40), [(0, Generation(id="a", prompt=text(20), max_tokens=80))])
    seen = passes(ours, monkeypatch)
    run = drive(engine, [(0, Generation(id="a", prompt=text(20), max_tokens=80))])
    assert run.texts == plain.texts and judge(run, theirs) == 80
    assert len(seen) < len(plain.plans) and engine.statistics().accepted > 0


def test_the_same_seeds_and_steps_give_the_same_text(ours, pairs):
    def texts() -> dict:
        engine = Engine.of(ours, blocks=14, block_size=8, limits=Limits(max_model_length=128, reserve_known=False),
                           speculation=Speculation(draft=pairs["Llama"][0]))
        return drive(engine, [(name, Generation(id=str(name), prompt=text(20, name), max_tokens=20, sampling=Sampling(seed=name)))
                              for name in range(4)]).texts

    assert texts() == texts()


# Drafts -----------------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 5), st.data())
def test_look_ups_find_what_those_of_transformers_find(said, longest, tokens, data):
    index = Index(longest)
    for end in sorted(data.draw(st.sets(st.integers(1, len(said)), max_size=5)) | {len(said)}):  # the text grows
        place = index.next_place(said[:end])
        theirs = PromptLookupCandidateGenerator(num_output_tokens=tokens, max_matching_ngram_size=longest, max_length=1000)
        wanted = theirs.get_candidates(torch.tensor([said[:end]]))[0][0].tolist()
        assert said[:end] + (said[:end][place:place + tokens] if place is not None else []) == wanted


@pytest.mark.parametrize("draft", ["itself", "other"])
def test_the_draft_has_read_all_that_the_model_has(draft, pairs):
    """After every step both caches hold the same positions: hits, chunks, copies, swaps and accepted guesses leave no hole."""
    ours = pairs["Qwen2"][0]
    other = ours if draft == "itself" else pairs["Llama"][0]
    engine = Engine.of(ours, blocks=16, block_size=8, preemption="swap", host_blocks=20,
                       limits=Limits(max_sequences=5, max_batched_tokens=20, max_model_length=128, reserve_known=False),
                       speculation=Speculation(tokens=3, draft=other))
    for name in range(5):
        engine.add(Generation(id=str(name), prompt=text(18 + 5 * name, name % 2), max_tokens=25))
    checked, forked = 0, False
    while not engine.idle:
        engine.step()
        for live in engine.live.values():
            sequence = live.sequence
            if sequence.block_table:
                held, wanted = keys(engine.drafter.cache, sequence), alone(other, live.tokens[:sequence.computed])
                torch.testing.assert_close(held, wanted, atol=2e-5, rtol=1e-4)
                checked += 1
        if not forked and "0" in engine.live and len(engine.live["0"].tokens) > 22:
            engine.fork("0", "fork")
            forked = True
    now = engine.statistics()
    assert forked and checked > 40 and now.preemptions > 0 and now.cached_tokens > 0 and now.drafted > 0


def keys(cache: Cache, sequence) -> torch.Tensor:
    """What a draft's cache holds of a sequence's computed tokens: keys and values of every layer."""
    layers = range(cache.storage.shape[0])
    tables = torch.tensor([sequence.block_table])
    return torch.stack([torch.stack(cache.read(layer, cache.lines(tables))) for layer in layers])[:, :, 0, :, :sequence.computed]


def alone(model, tokens: list[int]) -> torch.Tensor:
    from pycore.serving.plan import Scheduled

    blocks = -(-len(tokens) // 8)
    cache = Cache(model.configuration, blocks, 8)
    item = Scheduled(sequence_id="a", start=0, count=len(tokens), decode=False, emits=True, block_table=tuple(range(blocks)))
    with torch.inference_mode():
        forward(model, cache, batch([item], {"a": tokens}, 8))
    layers = range(model.configuration.layers)
    return torch.stack([torch.stack(cache.read(layer, cache.lines(torch.tensor([range(blocks)])))) for layer in layers])[:, :, 0, :, :len(tokens)]


def test_a_step_that_only_moves_blocks_is_one_for_the_draft_too(pairs):
    """Two texts that do not fit together swap each other out; the step that brings one back computes nothing."""
    ours, theirs = pairs["Qwen2"]
    engine = Engine.of(ours, blocks=10, block_size=8, preemption="swap", host_blocks=12, speculation=Speculation(tokens=2, draft=ours),
                       limits=Limits(max_sequences=4, max_batched_tokens=40, max_model_length=128, reserve_known=False))
    run = drive(engine, [(0, Generation(id=str(name), prompt=text(30, name), max_tokens=30)) for name in range(2)])
    assert judge(run, theirs) == 60 and {one.finish for one in run.ends.values()} == {"length"}
    assert any(plan.swapped_in and not plan.items for plan in run.plans)


def test_samples_of_one_prompt_speculate_each_for_itself(ours, theirs):
    engine = Engine.of(ours, blocks=60, speculation=Speculation(draft=ours))
    engine.add(Generation(id="a", prompt=text(33), max_tokens=12, samples=4, sampling=Sampling(seed=1)))
    engine.add(Generation(id="b", prompt=text(20), max_tokens=12, samples=2))
    texts: dict[str, list[int]] = {}
    while not engine.idle:
        for one in engine.step():
            texts.setdefault(one.id, []).append(one.choice.token)
        engine.scheduler.check()
    assert {name: len(said) for name, said in texts.items()} == dict.fromkeys(("a", "a/1", "a/2", "a/3", "b", "b/1"), 12)
    assert texts["b"] == texts["b/1"] and len({tuple(texts[name]) for name in ("a", "a/1", "a/2", "a/3")}) > 1
    assert engine.statistics().acceptance > 0.95


# What is not finite -----------------------------------------------------------------------------------------------------


def test_a_draft_whose_logits_are_not_finite_falls_silent_and_harms_nobody(pairs):
    ours, theirs = pairs["Qwen2"]
    draft = replace(pairs["Llama"][0], embedding=pairs["Llama"][0].embedding.clone())
    asked = [(0, Generation(id=str(name), prompt=text(20, name), max_tokens=20)) for name in range(3)]
    marked = asked[1][1].prompt[7]
    assert any(marked not in one.prompt for _, one in asked)
    draft.embedding[marked] = torch.nan
    engine = Engine.of(ours, blocks=30, speculation=Speculation(draft=draft))
    run = drive(engine, asked + [(40, Generation(id="later", prompt=(1, 2, 3) if marked > 3 else (61, 62, 63), max_tokens=8))])
    assert judge(run, theirs) == 68
    assert run.ends["1"].usage.drafted == 0


def test_a_guess_that_makes_the_model_overflow_is_rejected_and_leaves_nothing_behind(pairs):
    """The guessed token's row of the embedding is infinite: only the guess reads it; no block holds NaN afterwards."""
    ours, theirs = pairs["Qwen2"]
    plain = drive(Engine.of(ours, blocks=30), [(0, Generation(id="a", prompt=text(20), max_tokens=30))])
    never = next(token for token in range(64) if token not in plain.texts["a"])

    class Wrong:
        """Guesses a token that is never right."""

        silent: set[str] = set()

        def counts(self, texts):
            return None

        def guess(self, plan, texts, samplers):
            return {part.sequence_id: acceptance.Guess(tokens=(never,) * part.drafts, drawn_from=(None,) * part.drafts)
                    for part in plan.parts if part.drafts}

        def settle(self, plan, texts, came):
            pass

        def blank(self, blocks):
            pass

    broken = replace(ours, embedding=ours.embedding.clone(), head=type(ours.head)(ours.embedding.clone()))
    broken.embedding[never] = torch.inf
    engine = Engine.of(broken, blocks=30, speculation=Speculation(tokens=4))
    engine.drafter = Wrong()
    run = drive(engine, [(0, Generation(id="a", prompt=text(20), max_tokens=30)), (3, Generation(id="b", prompt=text(20), max_tokens=30))])
    assert run.texts["a"] == run.texts["b"] == plain.texts["a"] and judge(run, theirs) == 60
    assert torch.isfinite(engine.cache.storage).all() and engine.statistics().accepted == 0


@pytest.mark.parametrize("failing", ["run", "guess"])
def test_a_step_that_fails_among_guesses_ends_those_in_it_and_nobody_else(failing, ours, theirs, monkeypatch):
    """Whether the model fails or the draft: no block stays behind, and none of theirs is found again."""
    engine = Engine.of(ours, blocks=32, speculation=Speculation(tokens=3, draft=ours))
    for name in range(2):
        engine.add(Generation(id=str(name), prompt=text(40, name), max_tokens=20))
    engine.step()
    engine.step()

    def fails(*arguments):
        engine.cache.storage.fill_(torch.nan)
        engine.drafter.cache.storage.fill_(torch.nan)
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine_module if failing == "run" else engine.drafter, failing, fails)
        ends = engine.step()
    assert {(one.id, one.finish) for one in ends} == {("0", "error"), ("1", "error")}
    assert engine.idle and engine.scheduler.check().used == 0 == engine.scheduler.check().cached
    run = drive(engine, [(0, Generation(id="0", prompt=text(40), max_tokens=20))])
    assert judge(run, theirs) == 20 and run.ends["0"].usage.acceptance == 1.0


def test_a_clients_function_that_fails_among_accepted_guesses_ends_its_request_there(ours, theirs):
    heard: list[int] = []

    def hears(token: int) -> bool:
        heard.append(token)
        return 1 // (4 - len(heard)) == 99

    engine = Engine.of(ours, blocks=32, speculation=Speculation(tokens=5, draft=ours))
    engine.add(Generation(id="bad", prompt=text(20), max_tokens=20, stop_when=hears))
    engine.add(Generation(id="good", prompt=text(20, 1), max_tokens=20))
    outputs = []
    while not engine.idle:
        outputs += engine.step()
        engine.scheduler.check()
    bad = [one for one in outputs if one.id == "bad"]
    assert [one.choice.token for one in bad if one.choice] == heard[:3] and bad[-1].finish == "error"
    assert "ZeroDivisionError" in bad[-1].reason and len(heard) == 4
    assert sum(one.id == "good" and one.choice is not None for one in outputs) == 20


def test_what_does_not_go_together_is_refused_by_name(ours, random_model, small):
    for wrong in ({"tokens": 0}, {"tokens": 33}, {"tokens": True}, {"longest": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Speculation(**wrong)
    with pytest.raises(InputError, match="a model with the same 64 tokens"):
        Engine.of(ours, blocks=20, speculation=Speculation(draft=small[0]))
    with pytest.raises(InputError, match="at least 128"):
        short = replace(ours, configuration=replace(ours.configuration, context=64))
        Engine.of(ours, blocks=20, speculation=Speculation(draft=short))
    with pytest.raises(InputError, match="without speculation"):
        Engine.of(ours, blocks=20, limits=Limits(draft_tokens=2, max_model_length=128))
    scheduler = Engine.of(ours, blocks=20).scheduler
    with pytest.raises(InputError, match="of the speculation"):
        Engine(ours, scheduler, speculation=Speculation(tokens=2))
    engine = Engine.of(ours, blocks=20, speculation=Speculation(tokens=2, draft=ours))
    assert isinstance(engine.drafter, DraftModel) and len(engine.drafter.cache.storage[0, 0]) == 20
