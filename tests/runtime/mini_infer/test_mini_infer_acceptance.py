"""Guesses change no distribution: what is drawn with them, counted against the model's own; four wrong rules are seen."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from test_mini_infer_sampling import expected

from pycore.serving.limits import Limits
from runtime.mini_infer import acceptance
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.sampling import Sampling
from runtime.mini_infer.speculation import Speculation

PROMPT, SAID = (1, 4, 0, 2, 2, 1, 4, 0), 3
SAMPLINGS = {"all": Sampling(temperature=1.3), "filtered": Sampling(temperature=0.9, top_k=4, top_p=0.95, min_p=0.02),
             "penalised": Sampling(temperature=1.0, presence_penalty=0.8, frequency_penalty=0.4, repetition_penalty=1.3)}


def exact(theirs, one: Sampling) -> torch.Tensor:
    """Probability (5, 5, 5) of every text of three tokens, by `transformers` and the definitions of the penalties."""
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    found = torch.zeros((5,) * SAID, dtype=torch.float64)
    cache: dict[tuple, torch.Tensor] = {}
    for said in product(range(5), repeat=SAID):
        likely = 1.0
        for place in range(SAID):
            before = said[:place]
            if before not in cache:
                given = torch.tensor([PROMPT + before])
                with torch.no_grad():
                    scores = theirs(given).logits[0, -1]
                if one.repetition_penalty != 1:
                    scores = RepetitionPenaltyLogitsProcessor(one.repetition_penalty)(given, scores[None])[0]
                for token in set(before):
                    scores[token] -= one.presence_penalty + one.frequency_penalty * before.count(token)
                cache[before] = expected(scores, one)
            likely *= float(cache[before][said[place]])
        found[said] = likely
    return found


def drawn(target, speculation: Speculation | None, one: Sampling, requests: int = 16) -> tuple[torch.Tensor, Engine]:
    """How often every text of three tokens came."""
    engine = Engine.of(target, blocks=1200, block_size=4, speculation=speculation,
                       limits=Limits(max_model_length=32, max_sequences=512))
    for name in range(requests):
        engine.add(Generation(id=str(name), prompt=PROMPT, max_tokens=SAID + 1, samples=128,
                              sampling=replace(one, seed=1000 * name)))
    texts: dict[str, list[int]] = {}
    while not engine.idle:
        for output in engine.step():
            texts.setdefault(output.id, []).append(output.choice.token)
    found = torch.zeros((5,) * SAID, dtype=torch.float64)
    for said in texts.values():
        found[tuple(said[:SAID])] += 1
    return found, engine


def p_value(counts: torch.Tensor, likely: torch.Tensor) -> float:
    """Pearson's chi-square of counts against probabilities; cells expected below 5 times count as one."""
    counts, wanted = counts.flatten(), likely.flatten() * counts.sum()
    assert counts[wanted == 0].sum() == 0, "what cannot be said was said"
    often = wanted >= 5
    counts = torch.cat([counts[often], counts[~often].sum()[None]])
    wanted = torch.cat([wanted[often], wanted[~often].sum()[None]])
    seen = wanted > 0
    chi_square = ((counts - wanted)[seen] ** 2 / wanted[seen]).sum()
    return float(torch.special.gammaincc((seen.sum() - 1) / 2, chi_square / 2))


@pytest.mark.parametrize(("draft", "sampling"), [("model", "all"), ("model", "filtered"), ("model", "penalised"),
                                                 ("lookup", "filtered")])
def test_what_is_said_has_the_models_own_distribution(draft, sampling, small):
    target, theirs, other = small
    one = SAMPLINGS[sampling]
    counts, engine = drawn(target, Speculation(tokens=2, draft=other if draft == "model" else None), one)
    now = engine.statistics()
    assert 0.1 < now.acceptance < 0.95 and now.drafted > 300, "there is something to get wrong"
    assert p_value(counts, exact(theirs, one)) > 0.001


@pytest.mark.parametrize(("name", "wrong"), [
    ("keeps", lambda p, q, guessed, coin: True), ("keeps", lambda p, q, guessed, coin: coin < float(p[guessed])),
    ("left", lambda p, q, guessed: p), ("left", lambda p, q, guessed: p - q + 1e-9 if (p - q).min() >= 0 else (q - p).clamp(min=0))],
    ids=["keep all", "keep by p alone", "draw anew from p", "draw from the wrong side"])
def test_a_wrong_rule_would_be_seen(name, wrong, small, monkeypatch):
    target, theirs, other = small
    monkeypatch.setattr(acceptance, name, wrong)
    counts, _ = drawn(target, Speculation(tokens=2, draft=other), SAMPLINGS["all"], requests=10)
    assert p_value(counts, exact(theirs, SAMPLINGS["all"])) < 1e-6


def test_a_draft_that_is_the_model_itself_is_always_right_when_sampled_too(small):
    target = small[0]
    _, engine = drawn(target, Speculation(tokens=3, draft=target), SAMPLINGS["filtered"], requests=4)
    assert engine.statistics().acceptance > 0.999  # p and q differ by rounding alone
