"""Sampling beside the processors of `transformers`; what is drawn has the probabilities that it should."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_infer_driving import text
from transformers.generation import logits_process as oracle

from pycore.errors import InputError
from runtime.mini_infer.acceptance import NO_GUESS, accepted
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.sampling import SEEDS, Choice, Sampler, Sampling, distribution, stream

VOCABULARY = 40


def logits(seed: int) -> torch.Tensor:
    return torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3


def choose(samplers: list[Sampler], rows: torch.Tensor) -> list[Choice | None]:
    """One token for each, as a step without guesses gives them; None for rows that are not finite."""
    return [said[0] if said else None for said in accepted(samplers, [NO_GUESS] * len(samplers), rows)]


def expected(scores: torch.Tensor, one: Sampling) -> torch.Tensor:
    """What `transformers` leaves to sample from."""
    processors = [oracle.TemperatureLogitsWarper(float(one.temperature))]
    processors += [oracle.TopKLogitsWarper(one.top_k)] if one.top_k else []
    processors += [oracle.TopPLogitsWarper(float(one.top_p))] if one.top_p < 1 else []
    processors += [oracle.MinPLogitsWarper(float(one.min_p))] if one.min_p else []
    scores = scores.double()[None]
    for processor in processors:
        scores = processor(None, scores)
    return scores[0].softmax(-1)


@settings(max_examples=150)
@given(seed=st.integers(0, 10_000), temperature=st.floats(0.05, 5), top_k=st.integers(0, 50), top_p=st.floats(0, 1),
       min_p=st.one_of(st.just(0.0), st.floats(0.001, 1)))
def test_filters_leave_what_those_of_transformers_leave(seed, temperature, top_k, top_p, min_p):
    one = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    torch.testing.assert_close(distribution(logits(seed), one), expected(logits(seed), one), atol=1e-9, rtol=1e-6)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), penalty=st.floats(0.5, 3), presence=st.floats(-2, 2), frequency=st.floats(-2, 2),
       prompt=st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9),
       output=st.lists(st.integers(0, VOCABULARY - 1), max_size=9))
def test_penalties_are_those_of_their_definitions(seed, penalty, presence, frequency, prompt, output):
    sampler = Sampler(Sampling(repetition_penalty=penalty, presence_penalty=presence, frequency_penalty=frequency), prompt)
    for token in output:
        sampler.said_now(token)
    scores = oracle.RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([prompt + output]), logits(seed)[None])[0]
    for token in set(output):  # the definition in OpenAI's reference
        scores[token] -= presence + frequency * output.count(token)
    torch.testing.assert_close(sampler.adjusted(logits(seed)), scores)


def test_what_is_drawn_follows_the_distribution():
    one = Sampling(temperature=0.9, top_k=12, seed=7)
    sampler, scores, draws = Sampler(one, ()), logits(5), 4000
    counts = torch.zeros(VOCABULARY)
    for _ in range(draws):
        counts[sampler.choose(scores).token] += 1
    likely = expected(scores, one)
    assert counts[likely == 0].sum() == 0
    seen = likely > 0
    chi_square = float(((counts - draws * likely)[seen] ** 2 / (draws * likely[seen])).sum())
    assert chi_square < 31.3  # 11 degrees of freedom, p = 0.001; the seed is fixed


def test_a_seed_gives_the_same_tokens_whoever_else_is_in_the_batch():
    def drawn(company: int) -> list[int]:
        samplers = [Sampler(Sampling(seed=3), ())] + [Sampler(Sampling(seed=100 + i), ()) for i in range(company)]
        return [choose(samplers, torch.stack([logits(step)] * len(samplers)))[0].token for step in range(20)]

    assert drawn(0) == drawn(5)
    assert len(set(drawn(0))) > 3
    other = [choose([Sampler(Sampling(seed=4), ())], logits(step)[None])[0].token for step in range(20)]
    assert other != drawn(0)


def test_peer_14_top_p_of_zero_is_the_most_likely_token():
    for seed in range(20):
        assert Sampler(Sampling(top_p=0.0), ()).choose(logits(seed)).token == int(logits(seed).argmax())


@pytest.mark.parametrize("temperature", [0.0, 1e-30, 1e-5])
def test_no_temperature_and_hardly_any_are_greedy(temperature):
    for seed in range(20):
        assert Sampler(Sampling(temperature=temperature), ()).choose(logits(seed)).token == int(logits(seed).argmax())


def test_logprobs_are_the_models_own_whatever_is_drawn():
    one = Sampling(temperature=0.3, top_k=2, repetition_penalty=2.0, logprobs=3, seed=1)
    choice = Sampler(one, (1, 2)).choose(logits(2))
    plain = logits(2).log_softmax(-1)
    values, tokens = plain.topk(3)
    assert choice.logprob == pytest.approx(float(plain[choice.token]))
    assert [token for token, _ in choice.top] == tokens.tolist()
    assert [value for _, value in choice.top] == pytest.approx(values.tolist())
    assert Sampler(Sampling(), ()).choose(logits(2)).logprob is None


def test_banned_tokens_wait_for_the_least_count():
    scores = logits(2)
    best = int(scores.argmax())
    sampler = Sampler(Sampling(temperature=0.0), (), banned=(best,), least=2)
    first = choose([sampler], scores[None])[0].token
    assert first != best
    sampler.said_now(first)
    sampler.said_now(first)
    assert choose([sampler], scores[None])[0].token == best


def test_a_row_that_is_not_finite_spoils_no_other():
    rows = torch.stack([logits(1), torch.full((VOCABULARY,), torch.nan), logits(2)])
    found = choose([Sampler(Sampling(temperature=0.0), ()), Sampler(Sampling(), ()), Sampler(Sampling(temperature=0.0), ())], rows)
    assert [choice and choice.token for choice in found] == [int(rows[0].argmax()), None, int(rows[2].argmax())]


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), least=st.integers(0, 4), said=st.integers(0, 5), end=st.sets(st.integers(0, 39), max_size=5))
def test_ends_are_banned_as_transformers_bans_them(seed, least, said, end):
    sampler = Sampler(Sampling(temperature=0.0), (), banned=sorted(end), least=least)
    for _ in range(said):
        sampler.said_now(1)
    theirs = oracle.MinNewTokensLengthLogitsProcessor(3, least, sorted(end), device="cpu") if end else None
    scores = logits(seed)[None]
    wanted = scores if theirs is None else theirs(torch.ones(1, 3 + said, dtype=torch.long), scores)
    torch.testing.assert_close(sampler.adjusted(logits(seed)), wanted[0])


WHOLE = [Sampling(seed=5), Sampling(seed=6, temperature=0.7, top_k=12, top_p=0.9, min_p=0.02),
         Sampling(seed=7, temperature=1.4, repetition_penalty=1.3, min_p=0.05),
         Sampling(seed=8, temperature=0.9, presence_penalty=1.2, frequency_penalty=0.6, top_p=0.8),
         Sampling(temperature=0, repetition_penalty=1.4, frequency_penalty=0.3)]


@pytest.mark.parametrize("one", WHOLE, ids=["seed alone", "filters", "repetition", "presence and frequency", "greedy"])
def test_an_engine_samples_what_a_loop_over_transformers_does(one, pairs):
    """The other's logits, its processors in its order, one random stream: the same tokens, with their log-probabilities."""
    ours, theirs = pairs["Qwen2"]
    prompt, end, least, most = text(24), tuple(range(0, 64, 5)), 6, 30
    engine = Engine.of(ours, blocks=20)
    engine.add(Generation(id="a", prompt=prompt, max_tokens=most, min_tokens=least, end=end, sampling=replace(one, logprobs=4)))
    engine.add(Generation(id="company", prompt=text(30, 1), max_tokens=20, sampling=Sampling(seed=1)))
    outputs = []
    while not engine.idle:
        outputs += [output for output in engine.step() if output.id == "a"]
    generator, said = torch.Generator().manual_seed(one.seed or 0), list(prompt)
    ban = oracle.MinNewTokensLengthLogitsProcessor(len(prompt), least, list(end), device="cpu")
    repetition = oracle.RepetitionPenaltyLogitsProcessor(float(one.repetition_penalty))
    for output in outputs:
        given = torch.tensor([said])
        with torch.no_grad():
            raw = theirs(given).logits[0, -1]
        scores = repetition(given, raw[None].clone())
        for token in set(said[len(prompt):]):
            scores[0, token] -= one.presence_penalty + one.frequency_penalty * said[len(prompt):].count(token)
        scores = ban(given, scores)[0]
        token = int(scores.argmax()) if one.temperature == 0 else int(
            torch.multinomial(expected(scores, one), 1, generator=generator))
        assert output.choice.token == token
        values, tokens = raw.log_softmax(-1).topk(4)
        assert [likely for likely, _ in output.choice.top] == tokens.tolist()
        assert [value for _, value in output.choice.top] == pytest.approx(values.tolist(), abs=1e-4)
        assert output.choice.logprob == pytest.approx(float(raw.log_softmax(-1)[token]), abs=1e-4)
        said.append(token)
    ended = said[-1] in end
    assert outputs[-1].finish == ("stop" if ended else "length") and len(said) - len(prompt) >= least
    assert ended or len(said) - len(prompt) == most
    assert not set(said[len(prompt):-1][least - 1:]) & set(end)


@pytest.mark.parametrize("wrong", [
    {"temperature": -1}, {"temperature": float("nan")}, {"temperature": "1"}, {"top_p": 1.5}, {"top_p": True}, {"min_p": -0.1},
    {"top_k": -1}, {"top_k": 1.5}, {"repetition_penalty": 0}, {"presence_penalty": 3}, {"frequency_penalty": float("inf")},
    {"seed": "a"}, {"seed": 1 << 70}, {"logprobs": 21}], ids=str)
def test_settings_outside_their_range_are_refused_by_name(wrong):
    with pytest.raises(InputError) as caught:
        Sampling(**wrong)
    assert caught.value.field == next(iter(wrong))


def test_all_64_bits_of_a_seed_count():
    """torch's generator on the CPU would take the lower 32: 7 and 7 + 2**32 said the same."""
    seeds = [7, 7 + (1 << 32), 7 + (1 << 62), -1, (1 << 32) - 1, SEEDS - 1, -SEEDS, 0]

    def drawn(seed: int) -> tuple[int, ...]:
        sampler = Sampler(Sampling(seed=seed), ())
        return tuple(sampler.choose(torch.zeros(VOCABULARY)).token for _ in range(12))

    assert len({drawn(seed) for seed in seeds}) == len(seeds) and drawn(7) == drawn(7)
    assert len({stream(1 << bit) for bit in range(64)}) == 64 and stream((1 << 32) - 1) == (1 << 32) - 1
