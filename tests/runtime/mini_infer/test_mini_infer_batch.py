"""Texts that end otherwise than by themselves: each sample says its own end, and what it took."""

import pytest

from runtime.mini_infer import engine as engine_module
from runtime.mini_infer import make_model
from runtime.mini_infer.batch import Asked, Batch
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.sampling import Sampling
from runtime.mini_infer.source import open_source
from runtime.mini_infer.stream import TextStream


@pytest.fixture
def batch(tmp_path):
    make_model.make(tmp_path / "tiny", make_model.sizes("qwen2", layers=1, width=32, heads=2, kv_heads=1))
    source = open_source(str(tmp_path / "tiny"), device="cpu")
    batch = Batch(Engine.of(source.model, blocks=40), source.words)
    batch.add(Asked(prompt="The engine reads", samples=3, max_tokens=50, ignore_end=True, sampling=Sampling(seed=1)))
    return batch


def test_every_sample_that_is_given_up_says_what_it_took(batch):
    """The id of the first sample is the request's: to drop it drops the others, whose usage must have been asked before."""
    steps = iter(range(6))
    batch.run(lambda text, part: None, given_up=lambda: next(steps, None) is None)
    assert [text.finish for text in batch.texts.values()] == ["aborted"] * 3
    assert [text.usage.output_tokens for text in batch.texts.values()] == [6, 6, 6]
    assert {text.usage.prompt_tokens for text in batch.texts.values()} == {len(batch.prompts[0])}


def test_every_sample_is_told_of_an_end_before_the_first_token(batch, monkeypatch):
    def fails(*arguments):
        raise RuntimeError("out of memory, say")

    monkeypatch.setattr(engine_module, "run", fails)
    heard = []
    batch.run(lambda text, part: heard.append((text.id, text.finish, part)))
    assert heard == [("0", "error", ""), ("0/1", "error", ""), ("0/2", "error", "")]
    assert all("out of memory, say" in text.reason and text.usage.output_tokens == 0 for text in batch.texts.values())
    assert batch.engine.statistics().finished == {"error": 3}


def test_a_text_that_fails_at_its_first_token_ends_alone(batch, monkeypatch):
    """Its siblings have a first token of their own."""
    real, calls = TextStream.push, []

    def push(self: TextStream, token: int) -> str:
        calls.append(token)
        return real(self, token) if len(calls) > 1 else 1 // 0

    monkeypatch.setattr(TextStream, "push", push)
    batch.run(lambda text, part: None)
    assert [(text.finish, len(text.tokens)) for text in batch.texts.values()] == [("error", 0), ("length", 50), ("length", 50)]
