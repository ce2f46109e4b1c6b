"""Speeds from the times of tokens, errors of logits, and the command that shows both."""

import json
import math

import pytest
import torch
from mini_infer_driving import text
from torch.nn import functional

from pycore.cli.mini_infer import main
from pycore.cli.mini_infer.bench import levels
from pycore.errors import InputError, NotKnown
from runtime.mini_infer import benching
from runtime.mini_infer.kv_formats import kv_format
from runtime.mini_infer.make_model import make, sizes
from runtime.mini_infer.quality import compare, logits
from runtime.mini_infer.setup import Setup
from runtime.mini_infer.speeds import (
    Speeds,
    bandwidth_bytes_per_s,
    median_and_best,
    prompts,
    run_batch,
    speeds,
    step_bytes,
    weight_bytes,
)


def test_speeds_are_those_of_the_times():
    found = speeds([[1.0, 3.0, 4.0], [2.0, 3.0, 6.0]], prompt_tokens=100)
    assert found == Speeds(prefill_tokens_per_s=50.0, decode_tokens_per_s=4 / 4.0, ttft_s=1.5, overall_tokens_per_s=1.0,
                           seconds=6.0)
    with pytest.raises(NotKnown):
        speeds([[1.0], [1.0]], 10)


def test_the_best_of_a_time_is_the_least_and_of_a_rate_the_highest():
    rounds = [speeds([[first, first + 1.0]], 10) for first in (1.0, 2.0, 5.0)]
    assert median_and_best(rounds, "ttft_s") == (2.0, 1.0)
    assert median_and_best(rounds, "prefill_tokens_per_s") == (5.0, 10.0)


def test_a_batch_notes_every_token_when_its_step_ends(pairs):
    ticks = iter(range(10**6))
    engine = Setup(kv_blocks=64, max_sequences=4).engine(pairs["Llama"][0])
    times = run_batch(engine, [text(20), text(30, 1), text(9, 2)], 5, lambda: float(next(ticks)))
    assert times == [[1.0, 2.0, 3.0, 4.0, 5.0]] * 3  # one step reads all prompts; the clock is asked at the start and a step
    assert engine.idle


def test_prompts_are_reproducible_and_none_begins_another():
    ours = prompts(8, 16, 64, 3)
    assert ours == prompts(8, 16, 64, 3) != prompts(8, 16, 64, 4)
    assert len({prompt[0:4] for prompt in map(tuple, ours)}) == 8 and all(0 <= token < 64 for one in ours for token in one)


def test_bytes_of_a_step_are_weights_once_and_each_ones_keys(pairs):
    model = pairs["Qwen2"][0]
    engine = Setup(kv_blocks=64, kv_format="int4").engine(model)
    one = model.configuration
    projections = sum(tensor.nbytes for name, tensor in model.places() if name.endswith("_proj.weight"))
    assert one.tied and weight_bytes(model) == projections + model.embedding.nbytes
    each = 2 * one.layers * one.kv_heads * kv_format("int4", one.head_width).row_bytes
    assert step_bytes(engine, 3, 50) == weight_bytes(model) + 150 * each


def test_bandwidth_is_bytes_over_the_least_time():
    spent = iter([0.0, 0.5, 1.0, 1.25, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0])
    assert bandwidth_bytes_per_s(lambda: next(spent)) == (1 << 28) / 0.25


def test_errors_are_those_of_torchs_own_functions():
    generator = torch.Generator().manual_seed(0)
    reference, found = (torch.randn(12, 30, generator=generator) for _ in range(2))
    tokens = torch.randint(30, (12,), generator=generator).tolist()
    error = compare(reference, found, tokens)
    kl = functional.kl_div(found.double().log_softmax(-1), reference.double().log_softmax(-1), log_target=True,
                           reduction="batchmean")
    assert math.isclose(error.kl_divergence, float(kl), rel_tol=1e-9)
    perplexity = functional.cross_entropy(found[:-1].double(), torch.tensor(tokens[1:])).exp()
    assert math.isclose(error.perplexity, float(perplexity), rel_tol=1e-9)
    assert math.isclose(error.logit_error, float((found - reference).double().norm() / math.sqrt(360) / reference.double().std()),
                        rel_tol=1e-6)
    same = compare(reference, reference, tokens)
    assert (same.logit_error, same.largest, same.kl_divergence, same.agreement) == (0, 0, 0, 1)
    with pytest.raises(InputError):
        compare(reference[:1], found[:1], tokens[:1])


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
def test_logits_of_a_text_are_those_of_transformers(kind, pairs):
    ours, theirs = pairs[kind]
    with torch.no_grad():
        expected = theirs(torch.tensor([text(50)])).logits[0].float()
    torch.testing.assert_close(logits(ours, text(50)), expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits(ours, text(50), chunk=9), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("wrong", ["", "0", "1,x", "1,,2", "-1", "99999999"])
def test_levels_that_are_none_are_refused(wrong):
    with pytest.raises(InputError, match="concurrency"):
        levels(wrong)


def test_the_command_measures_and_compares(tmp_path, capsys, monkeypatch):
    make(tmp_path / "model", sizes("qwen3", layers=2, width=32, heads=2, kv_heads=1, context=64))
    (tmp_path / "text.txt").write_text("In the beginning was the word. " * 8, encoding="utf-8")
    monkeypatch.setattr(benching, "bandwidth_bytes_per_s", lambda: 1e9)
    asked = ["bench", str(tmp_path / "model"), "--device", "cpu", "--concurrency", "1,3", "--prompt", "8", "--output", "3",
             "--rounds", "2", "--kv-format", "int4", "--kv-blocks", "64", "--text", str(tmp_path / "text.txt")]
    with pytest.raises(SystemExit) as ended:
        main([*asked, "--json"])
    assert not ended.value.code
    found = json.loads(capsys.readouterr().out)
    assert [row["concurrency"] for row in found["rows"]] == [1, 3] and found["kv_format"] == "int4" and found["rounds"] == 2
    for row in found["rows"]:
        assert row["decode_tokens_per_s_best"] >= row["decode_tokens_per_s"] > 0 and row["ttft_s"] >= row["ttft_s_best"] > 0
    assert 0 < found["logits"]["logit_error"] < 1 and 8 < found["logits"]["tokens"] <= 64
    with pytest.raises(SystemExit) as ended:
        main(asked)
    assert not ended.value.code and "int4" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["bench", str(tmp_path / "model"), "--device", "cpu", "--text", str(tmp_path / "none"), "--rounds", "1",
              "--concurrency", "1", "--output", "2", "--prompt", "2"])
    assert ended.value.code == 2 and "at once" not in capsys.readouterr().err  # said before any round is run
    with pytest.raises(SystemExit) as ended:
        main(["bench", str(tmp_path / "model"), "--device", "cpu", "--kv-blocks", "16777216"])
    assert ended.value.code == 2 and "room for" in capsys.readouterr().err
