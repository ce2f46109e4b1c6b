"""`mini-infer speedup` as people and scripts use it: the same texts both ways, figures that add up, bad input by name."""

import pytest
import torch

from pycore.cli import mini_infer as program
from pycore.errors import InputError
from pycore.serving.limits import Limits
from runtime.mini_infer import make_model, speedup
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.files import load
from runtime.mini_infer.generation import GREEDY
from runtime.mini_infer.speculation import Speculation

PROGRAM = (program.mini_infer, "mini-infer")
SMALL = ("--max-tokens", 40, "--kv-blocks", 60, "--runs", 1)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder that make-model wrote."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("models") / "tiny"
    make_model.make(place, make_model.sizes("qwen2", layers=1, width=32, heads=4, kv_heads=2, context=256))
    return place


def test_the_figures_of_a_look_up_add_up(document, model):
    found = document("speedup", model, "--prompt", "one two three one two three", "--prompt", "a b a b a b", *SMALL)
    assert found["same"] is True and found["texts"] == 2 and found["draft"] == "n-gram" and found["times_as_fast"] > 0
    assert found["steps"]["guessed"] <= found["steps"]["plain"]
    assert found["acceptance"] == found["accepted"] / found["drafted"]
    assert found["wasted_positions"] >= found["drafted"] - found["accepted"] - 1
    assert len(found["seconds"]["plain"]) == len(found["seconds"]["guessed"]) == 1


def test_a_draft_that_is_the_model_itself_is_always_right(run, document, model):
    words = ("speedup", model, "--draft", model, "--draft-tokens", 3, "--prompt", "one two", "--ignore-eos", *SMALL)
    found = document(*words)
    assert found["acceptance"] == 1.0 and found["wasted_positions"] == 0 and found["tokens"] == 40
    assert found["steps"] == {"plain": 40, "guessed": 11}
    status, out, _ = run(*words)
    assert status == 0 and "11 instead of 40, for 40 tokens of 1 text" in out and "(100 %); 0 positions" in out
    seeded = document(*words, "--temperature", 0.7)
    assert seeded["acceptance"] > 0.95 and seeded["same"] is True


def test_texts_that_differ_are_told_and_make_the_status_1(run, model, monkeypatch):
    real = speedup.Engine.step

    def wrong(self):
        return tuple(one for one in real(self) if self.speculation is None or len(self.live) == 1 or one.finish)

    monkeypatch.setattr(speedup.Engine, "step", wrong)
    status, out, _ = run("speedup", model, "--prompt", "one two", "--prompt", "three", *SMALL)
    assert status == 1 and "DIFFERENT text" in out


@pytest.mark.parametrize(("words", "named"), [
    (("--prompt", "a", "--stop", "x"), "--stop"), ((), "--prompt"), (("--prompt", "a", "--runs", 0), "--runs"),
    (("--prompt", "a", "--draft-tokens", 0), "--draft-tokens"), (("--prompt", "a", "--temperature", -1), "--temperature")], ids=str)
def test_bad_input_is_refused_by_name(run, model, words, named):
    status, _, err = run("speedup", model, *words)
    assert status == 2 and named in err


def test_runs_are_made_in_turn_each_from_an_empty_pool(model):
    ours, seen = load(model), []
    engine = Engine.of(ours, blocks=40, block_size=8, limits=Limits(max_model_length=128), preemption="swap", host_blocks=4,
                       speculation=Speculation(tokens=2, draft=ours))
    asked = [Generation(id="a", prompt=tuple(range(5, 30)), max_tokens=12, samples=2, sampling=GREEDY)]
    found = speedup.measured(engine, asked, runs=2, told=seen.append)
    assert seen == [0, 1, 2] and len(found.plain.seconds) == len(found.guessed.seconds) == 2
    assert found.first_difference is None and found.guessed.tokens == found.plain.tokens == 24
    assert found.plain.drafted == 0 < found.guessed.accepted and found.plain.steps == 12
    twin = speedup.again(engine, guesses=True)
    assert twin.cache is engine.cache and twin.drafter.cache is engine.drafter.cache
    assert twin.statistics().blocks_cached == 0 and twin.scheduler.memory.host.total == 4
    for broken, named in ((Engine.of(ours, blocks=40), "draft"), (busy(engine, asked[0]), "engine")):
        with pytest.raises(InputError) as caught:
            speedup.measured(broken, asked)
        assert caught.value.field == named


def busy(engine: Engine, one: Generation) -> Engine:
    engine.add(one)
    return engine
