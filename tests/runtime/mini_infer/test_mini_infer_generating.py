"""Texts that are given up half-way say what they took, every sample of them."""

from runtime.mini_infer import make_model
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.generating import Asked, Batch
from runtime.mini_infer.sampling import Sampling
from runtime.mini_infer.source import open_source


def test_every_sample_that_is_given_up_says_what_it_took(tmp_path):
    """The id of the first sample is the request's: to drop it drops the others, whose usage must have been asked before."""
    make_model.make(tmp_path / "tiny", make_model.sizes("qwen2", layers=1, width=32, heads=2, kv_heads=1))
    source = open_source(str(tmp_path / "tiny"), device="cpu")
    batch = Batch(Engine.of(source.model, blocks=40), source.words)
    batch.add(Asked(prompt="The engine reads", samples=3, max_tokens=50, ignore_end=True, sampling=Sampling(seed=1)))
    steps = iter(range(6))
    batch.run(lambda text, part: None, given_up=lambda: next(steps, None) is None)
    assert [text.finish for text in batch.texts.values()] == ["aborted"] * 3
    assert [text.usage.output_tokens for text in batch.texts.values()] == [6, 6, 6]
    assert {text.usage.prompt_tokens for text in batch.texts.values()} == {len(batch.prompts[0])}
