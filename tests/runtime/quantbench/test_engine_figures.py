"""Perplexity, divergence, sensitivity and files: against `transformers`, closed forms and a second way to count."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file

from pycore.errors import InputError, SourceError
from runtime.models.configuration import Configuration
from runtime.models.transformer import Transformer
from runtime.quantbench import storage
from runtime.quantbench.convert import quantise
from runtime.quantbench.evaluate import Reference, divergence, mean, windows
from runtime.quantbench.measure import quantised, unquantised
from runtime.quantbench.mixed import option, planned, text_of
from runtime.quantbench.schemes import parse, parse_plan
from runtime.quantbench.sensitivity import sensitivities
from runtime.quantbench.speed import decode_tokens_per_s, noisy
from runtime.quantbench.ternary_training import ternary
from runtime.quantbench.tiny import Training, config, fresh, learnt_tokenizer, save, split, train

SIZES = Configuration(architecture="qwen2", vocabulary=300, layers=2, width=48, heads=4, kv_heads=2, head_width=12, feed_forward=96,
                      rope_base=1e4, epsilon=1e-6, context=128, tied=True)
TEXT = "In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness was upon the face of the deep. "


@pytest.fixture(scope="module")
def learnt():
    """(model, tokenizer, ids) of a model that has learnt a sentence or two: made in seconds."""
    torch.set_num_threads(1)
    tokenizer = learnt_tokenizer([TEXT * 4], SIZES.vocabulary)
    ids = tokenizer.encode(TEXT * 30)
    losses = []
    model = train(fresh(SIZES, 0), ids, Training(steps=120, batch=4, length=32, warm_up=10, seed=1), lambda step, loss: losses.append(loss))
    assert losses[-1] < 0.5 * losses[0]
    return model, tokenizer, ids


def test_windows_count_every_token_but_the_first_once():
    for tokens, length, stride in ((100, 32, 32), (100, 32, 8), (33, 32, 32), (64, 64, 1), (7, 32, 32), (2, 2, 1), (101, 10, 7)):
        found = windows(range(tokens), length, stride)
        targets = [int(one) for ids, count in found.rows for one in ids[-count:]]
        if stride < length:
            assert targets == list(range(1, tokens))
        else:  # without overlap a window's first token has nothing to be predicted from
            assert targets == [one for one in range(tokens) if one % length] and found.counted == len(targets)
    with pytest.raises(InputError, match="stride"):
        windows(range(10), 4, 5)
    with pytest.raises(InputError, match="two tokens"):
        windows([1])


def test_perplexity_is_transformers_loss(random_model):
    made, ids = random_model("Qwen2"), torch.randint(64, (40,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = math.exp(made(ids[None], labels=ids[None]).loss)
    assert Reference(made, windows(ids, 40)).scores.perplexity == pytest.approx(expected, rel=1e-5)


def test_divergence_is_the_sum_written_out():
    """Of the unquantised answer p from the quantised q, not the other way round: 0.1, 0.2 and 0.7 tell the two apart."""
    p, q = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[0.2, 0.2, 0.6]])
    expected = 0.7 * math.log(0.7 / 0.2) + 0.1 * math.log(0.1 / 0.6)
    assert divergence(p.log(), q.log())[0] == pytest.approx(expected) != pytest.approx(0.2 * math.log(0.2 / 0.7) + 0.6 * math.log(6))
    generator = torch.Generator().manual_seed(3)
    before, after = (torch.randn(6, 50, generator=generator).log_softmax(1) for _ in range(2))
    theirs = torch.nn.functional.kl_div(after, before, reduction="none", log_target=True).sum(1)
    assert torch.allclose(divergence(before, after), theirs, atol=1e-5)


def test_a_line_of_the_table_adds_up(learnt):
    model, _, ids = learnt
    reference = Reference(model, windows(ids, 64, most=512))
    plain = unquantised(model, reference)
    assert plain.bits_per_weight == 16 and plain.divergence.value == 0 and plain.agreement == 1 and plain.ratio.value == 1
    assert plain.size_bytes == 2 * sum(one.numel() for one in model.parameters())
    line, found = quantised(model, reference, parse_plan("int4:group=32; 0.down=none"), None)
    left = 48 * 96
    assert len(found) == 13 and line.size_bytes == plain.size_bytes - 2 * (plain.weights - left) + sum(one.stored_bytes for one in found)
    assert line.perplexity.low < line.perplexity.value < line.perplexity.high
    assert line.ratio.value == pytest.approx(line.perplexity.value / plain.perplexity.value, rel=1e-6) and 0 < line.divergence.value < 1
    assert (line.decode_tokens_per_s is None) == bool(line.no_speed)
    worse, _ = quantised(model, reference, parse_plan("bitnet-2bit"), None)
    assert worse.divergence.value > line.divergence.value and worse.weight_sqnr_db < line.weight_sqnr_db
    assert all(not target.startswith("data") for target in model.state_dict()), "the model itself was left alone"


def test_speed_is_given_only_when_the_machine_is_quiet(learnt, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (7.5, 0.0, 0.0))
    assert "load average 7.5" in noisy()
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.0, 0.0))
    assert noisy() == "" and decode_tokens_per_s(learnt[0], runs=1) > 0


def test_sensitivity_is_what_quantising_only_that_projection_does(learnt):
    model, _, ids = learnt
    text, scheme = windows(ids, 64, most=256), parse("int4:group=32")
    reference, rows = Reference(model, text), list(sensitivities(model, [scheme], text))
    assert [(one.layer, one.projection) for one in rows] == [(layer, name) for layer in range(2) for name in ("q", "k", "v", "o", "gate", "up", "down")]
    for one in rows:
        line, found = quantised(model, reference, parse_plan(f"{one.layer}.{one.projection}={scheme.text}"), None)
        assert one.divergence.value == pytest.approx(line.divergence.value, rel=1e-3, abs=1e-7)
        assert one.weight_sqnr_db == pytest.approx(line.weight_sqnr_db) and one.stored_bytes == found[0].stored_bytes
    first = rows[0]
    with torch.no_grad():
        attention = model.model.layers[0]
        inputs = attention.input_layernorm(torch.cat([model.model.embed_tokens(window) for window, _ in text.rows]))
        weight = attention.self_attn.q_proj.weight
        line, _ = quantised(model, reference, parse_plan("0.q=int4:group=32"), None)
        from pycore.pack import formats

        back = torch.from_numpy(formats.dequantise(formats.quantise("int4", weight.numpy(), group=32)))
        ratio = (inputs @ weight.T).square().sum() / (inputs @ (weight - back).T).square().sum()
    assert first.output_sqnr_db == pytest.approx(10 * math.log10(ratio), abs=0.01)


def test_a_text_too_short_for_sensitivity_is_refused(learnt):
    model, _, ids = learnt
    with pytest.raises(InputError, match="fills a window of 512"):
        next(sensitivities(model, [parse("int4")], windows(ids, 512, most=40)))


def test_a_plan_is_better_than_any_single_scheme_of_its_size(learnt):
    model, _, ids = learnt
    text = windows(ids, 64, most=256)
    rows = list(sensitivities(model, [parse("int4:group=32"), parse("q8_0")], text))
    found, rules = planned([option(one) for one in rows], 6.5)
    assert found.bits_per_weight.value <= 6.5 and {rule.scheme.format for rule in rules} == {"int4", "q8_0"}
    assert parse_plan(text_of(rules)) == rules and len(rules) == 14
    line, _ = quantised(model, Reference(model, text), rules, None)
    single, _ = quantised(model, Reference(model, text), parse_plan("int4:group=32"), None)
    assert line.divergence.value < single.divergence.value and line.bits_per_weight == pytest.approx(float(found.bits_per_weight.value))
    for bits in (2, 0, math.nan):
        with pytest.raises(InputError, match="bits"):
            planned([option(one) for one in rows], bits)


@pytest.mark.parametrize("plan", ["int4:group=32", "int8+a8; down=q4_k; 0.q=bitnet-5in8; 1.up=none", "nvfp4"])
def test_a_file_gives_the_same_logits(learnt, plan, tmp_path):
    model, _, ids = learnt
    made = Transformer(SIZES).eval()
    made.load_state_dict(model.state_dict())
    quantise(made, parse_plan(plan))
    size = storage.save(made, tmp_path / "model.safetensors")
    again = storage.load(tmp_path / "model.safetensors")
    tokens = torch.tensor([ids[:50]])
    with torch.no_grad():
        assert torch.equal(again(tokens), made(tokens))
    assert size == (tmp_path / "model.safetensors").stat().st_size < 4 * sum(one.numel() for one in model.parameters())
    assert again.lm_head.weight is again.model.embed_tokens.weight


def test_awq_scales_and_other_architectures_come_back(random_model, tmp_path):
    made, tokens = random_model("GPT2"), torch.randint(64, (8, 16), generator=torch.Generator().manual_seed(0))
    quantise(made, parse_plan("int4:group=32+awq"), calibration=tokens)
    storage.save(made, tmp_path / "gpt2.safetensors")
    with pytest.raises(SourceError, match="does not say what model"):
        storage.load(tmp_path / "gpt2.safetensors")
    with torch.no_grad():
        assert torch.equal(storage.load(tmp_path / "gpt2.safetensors", random_model("GPT2"))(tokens).logits, made(tokens).logits)


def test_files_that_do_not_hold_together_are_refused(learnt, tmp_path):
    made = Transformer(SIZES).eval()
    made.load_state_dict(learnt[0].state_dict())
    quantise(made, parse_plan("int4:group=32"))
    path = tmp_path / "sound.safetensors"
    storage.save(made, path)
    tensors, header = load_file(path), json.loads(storage_metadata(path))
    name = "model.layers.0.self_attn.q_proj"

    def changed(tensors: dict, header: object) -> None:
        save_file(tensors, tmp_path / "bad.safetensors", metadata={"quantbench": json.dumps(header)})
        storage.load(tmp_path / "bad.safetensors")

    def described(**change: object) -> dict:
        return header | {"layers": header["layers"] | {name: header["layers"][name] | change}}

    cases = (({**tensors, f"{name}.data": tensors[f"{name}.data"][:-1].clone()}, header), (tensors, described(stride=96)),
             (tensors, described(format="int3")), (tensors, described(shape=[48, -48])), (tensors, described(options={"group": 7})),
             (tensors, described(options=[1])), (tensors, header | {"layers": {"nowhere": header["layers"][name]}}), (tensors, header | {"version": 9}),
             (tensors, header | {"configuration": {"a": 1}}), (tensors, [1]), ({key: one for key, one in tensors.items() if "norm" not in key}, header))
    for case in cases:
        with pytest.raises((SourceError, InputError)):
            changed(*case)
    (tmp_path / "cut.safetensors").write_bytes(path.read_bytes()[:-5])
    with pytest.raises(SourceError, match="not a sound"):
        storage.load(tmp_path / "cut.safetensors")
    with pytest.raises(InputError, match="quantised"):
        storage.save(learnt[0], tmp_path / "none.safetensors")


def storage_metadata(path) -> str:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.metadata()["quantbench"]


def test_a_trained_model_is_a_folder_that_transformers_reads(learnt, tmp_path):
    import transformers

    model, tokenizer, ids = learnt
    save(model, tokenizer, tmp_path, {"seed": 1})
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    tokens = torch.tensor([ids[:40]])
    with torch.no_grad():
        assert torch.allclose(theirs(tokens).logits, model(tokens), atol=1e-4)
    from runtime.models.load import load

    again = load(str(tmp_path))
    assert again.tokenizer.encode(TEXT) == tokenizer.encode(TEXT) and config(SIZES)["model_type"] == "qwen2"
    with torch.no_grad():
        assert torch.equal(again.model(tokens), model(tokens))


def test_training_for_ternary_weights_gains_what_rounding_lost(learnt):
    model, _, ids = learnt
    text = windows(ids, 32, most=512)
    reference = Reference(model, text)
    rounded, _ = quantised(model, reference, parse_plan("bitnet-2bit"), None)
    made = Transformer(SIZES)
    made.load_state_dict(model.state_dict())
    train(made, ids, Training(steps=80, batch=4, length=32, rate=2e-3, warm_up=10, ternary=True))
    learnt_so, found = quantised(made, reference, parse_plan("bitnet-2bit"), None)
    assert type(made.model.layers[0].mlp.up_proj) is torch.nn.Linear
    assert learnt_so.perplexity.value < 0.5 * rounded.perplexity.value
    weight = made.model.layers[1].mlp.down_proj.weight.detach()
    from pycore.pack import formats

    assert torch.allclose(ternary(weight), torch.from_numpy(formats.dequantise(formats.quantise("bitnet-2bit", weight.numpy()))), rtol=1e-6)
    assert len(torch.unique(ternary(weight))) == 3 and found[0].stored_bytes == 48 * 48 // 4 + 4


def test_the_same_seed_gives_the_same_weights():
    ids = list(range(200)) * 3
    first, second = (train(fresh(SIZES, 4), ids, Training(steps=3, batch=2, length=16, seed=4)) for _ in range(2))
    other = train(fresh(SIZES, 4), ids, Training(steps=3, batch=2, length=16, seed=5))
    key = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(first.state_dict()[key], second.state_dict()[key]) and not torch.equal(first.state_dict()[key], other.state_dict()[key])


def test_chapters_that_are_held_out_are_not_learnt():
    chapters = [f"chapter {number}" for number in range(45)]
    learnt_text, held = split(chapters)
    assert held == "chapter 19\n\nchapter 39" and not set(held.split("\n\n")) & set(learnt_text.split("\n\n"))


def test_a_mean_says_how_sure_it_is():
    values = torch.randn(400, generator=torch.Generator().manual_seed(0)) + 3
    found = mean(values)
    assert found.value == pytest.approx(float(values.double().mean())) and found.low < 3 < found.high and found.high - found.low < 0.5
    assert mean(values[:10]).low is None
