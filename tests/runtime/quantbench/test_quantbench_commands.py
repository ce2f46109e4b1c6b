"""`quantbench quantize` and `eval` on a small model of random weights that `transformers` made: scores beside its own."""

import json
import math
import subprocess
import sys
import weakref

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM

from pycore.cli import errors
from pycore.cli import quantbench as program
from runtime.models.load import load
from runtime.quantbench import evaluate
from runtime.quantbench.evaluate import Reference, side_by_side, windows

TEXT = "In the beginning God created the heaven and the earth. And the earth was without form, and void. " * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model's folder, and a text."""
    place = tmp_path_factory.mktemp("model")
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    backend.save(str(place / "tokenizer.json"))
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=backend.get_vocab_size(), hidden_size=64, intermediate_size=128,
                                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                         max_position_embeddings=512, tie_word_embeddings=True))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # answers that differ from chance
    model.save_pretrained(place)
    (place.parent / "text.txt").write_text(TEXT)
    return place, model, backend, place.parent / "text.txt"


@pytest.fixture
def document(capsys):
    """Run with --json: the object."""
    def call(*words):
        status = errors.run(program.quantbench, [str(one) for one in words] + ["--json"], "quantbench")
        captured = capsys.readouterr()
        assert status == 0, captured.err
        return json.loads(captured.out)

    return call


def test_perplexity_is_that_of_transformers(folder, document):
    place, model, backend, text = folder
    found = document("eval", place, "--corpus", text, "--tokens", 257, "--window", 257, "--stride", 257)
    ids = torch.tensor([backend.encode(TEXT).ids[:257]])
    with torch.no_grad():
        assert math.isclose(found["perplexity"], math.exp(model(ids, labels=ids).loss), rel_tol=1e-4)
    assert found["tokens"] == 256 and found["plan"] is None and "kl_divergence" not in found


def test_a_quantised_model_scores_from_its_folder_as_in_memory(folder, document, tmp_path):
    place, _, _, text = folder
    words = ["--corpus", text, "--tokens", 200, "--window", 100, "--stride", 100]
    memory = document("eval", place, "--format", "int4", "--group", "32", *words)
    written = document("quantize", place, "--format", "int4", "--group", "32", "--out", tmp_path / "out")
    again = document("eval", tmp_path / "out", "--against", place, *words)
    assert 0 < memory["kl_divergence"] < 1 and math.isclose(memory["kl_divergence"], again["kl_divergence"], rel_tol=0.05)
    assert written["bits_per_weight"] == memory["bits_per_weight"] == 4.5 and again["reference_perplexity"] == memory[
        "reference_perplexity"]
    assert written["size_bytes"] == (tmp_path / "out" / "model.safetensors").stat().st_size
    assert written["projections"] == 14 and written["quantised_weights"] == 2 * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 128 * 3)


@pytest.mark.parametrize("words", [["--format", "int4", "--group", "32", "--method", "gptq"], ["--format", "int4", "--method", "awq"],
                                   ["--format", "int8", "--method", "smoothquant", "--activations"],
                                   ["--plan", "q8_0; down=q4_0; 0.*=none"]])
def test_methods_and_plans(folder, document, words):
    place, _, _, text = folder
    found = document("eval", place, "--corpus", text, "--tokens", 200, "--window", 100, "--stride", 50, *words)
    assert 0 < found["kl_divergence"] < 1 and found["weight_sqnr_db"] > 8 and found["stride"] == 50


@pytest.mark.parametrize(("words", "said"), [
    (["eval", "no-such-model"], "smollm2-135m"), (["eval", "{model}", "--corpus", "no-such-text"], "--corpus"),
    (["quantize", "{model}", "--plan", "int4; dwn=q6_k", "--out", "{out}"], "'dwn'"),
    (["quantize", "{model}", "--plan", "int4; 2.q=none", "--out", "{out}"], "'2.q'"),
    (["quantize", "{model}", "--plan", "*=none", "--out", "{out}"], "at least one projection"),
    (["eval", "{model}", "--window", "513", "--stride", "513"], "context, 512"), (["eval", "{model}", "--corpus", "/dev/null"], "--corpus"),
    (["quantize", "{empty}/..", "--format", "int4", "--out", "{out}"], "no folder of a model"),
    (["quantize", "{model}", "--format", "q4_0", "--method", "gptq", "--out", "{out}"], "gptq"),
    (["quantize", "{model}", "--plan", "magic", "--out", "{out}"], "magic"), (["eval", "{empty}"], "holds no")])
def test_bad_input_is_said(folder, capsys, tmp_path, words, said):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text((folder[0] / "config.json").read_text())
    filled = [one.format(model=folder[0], out=tmp_path / "out", empty=tmp_path / "empty") for one in words]
    status = errors.run(program.quantbench, filled, "quantbench")
    captured = capsys.readouterr()
    assert status == 2 and said in captured.err and "Internal fault" not in captured.err, captured.err


def test_a_longer_text_takes_no_more_memory(folder, monkeypatch):
    """The reference's answers for a whole text would be tokens x vocabulary: 59 GB for WikiText-2 and SmolLM2."""
    place, _, backend, _ = folder
    loaded = load(str(place))
    held = windows(backend.encode(TEXT).ids, 64)
    own, scores = side_by_side(loaded.model, loaded.model, held)
    kept = Reference(loaded.model, held)
    assert torch.equal(own.losses, kept.losses) and torch.equal(scores.losses, kept.losses) and not scores.divergences.any()
    refs, most = [], []

    def watched(*given):
        for found, wanted in counted(*given):
            refs.append(weakref.ref(found))
            most.append(sum(one() is not None for one in refs))
            yield found, wanted

    counted = evaluate.counted_log_probabilities
    monkeypatch.setattr(evaluate, "counted_log_probabilities", watched)
    side_by_side(loaded.model, loaded.model, held)
    assert len(most) == 2 * len(held.rows) > 12 and max(most) <= 4 and torch.is_grad_enabled()


@pytest.mark.parametrize("room", [2_000, 60_000])
def test_a_full_disk_is_said_and_leaves_no_half_model(folder, tmp_path, room):
    """The limit on a file's size stands in for a disk that has no more room."""
    command = [sys.executable, "-c", f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}));"
               "from pycore.cli.quantbench import main; main()", "quantize", str(folder[0]), "--format", "int8", "--out", str(tmp_path / "out")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2 and "--out" in found.stderr and "cannot be written" in found.stderr, found.stderr
    assert not list((tmp_path / "out").glob("model*"))
