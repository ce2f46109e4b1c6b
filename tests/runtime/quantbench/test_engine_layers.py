"""A packed layer: what it computes, what it takes in memory, and every model that it can stand in."""

import gc
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from pycore.errors import InputError
from pycore.pack import formats
from runtime.models.configuration import Configuration
from runtime.models.transformer import Transformer
from runtime.quantbench.convert import quantise
from runtime.quantbench.linear import QuantLinear, from_packed, rounded_per_token
from runtime.quantbench.schemes import parse, parse_plan, scheme_of, spelt
from runtime.quantbench.targets import targets

SIZES = Configuration(architecture="qwen2", vocabulary=96, layers=3, width=64, heads=4, kv_heads=2, head_width=16, feed_forward=160,
                      rope_base=1e4, epsilon=1e-5, context=128, tied=True)
IDS = torch.tensor([[3, 9, 1, 44, 80, 2, 7, 7, 61]])
EVERY = [one.id for one in formats.FORMATS]


def model(sizes: Configuration = SIZES) -> Transformer:
    torch.manual_seed(0)
    made = Transformer(sizes).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.1)
    return made


def live_bytes() -> int:
    """Bytes of every tensor's memory that is alive, shared memory once."""
    gc.collect()
    found = {}
    for one in gc.get_objects():
        try:
            if issubclass(type(one), torch.Tensor) and one.device.type == "cpu":  # isinstance would touch lazy modules
                found[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
        except (ReferenceError, RuntimeError):
            continue
    return sum(found.values())


@pytest.mark.parametrize("name", EVERY)
def test_a_layer_computes_what_its_bytes_stand_for(name):
    generator = np.random.default_rng(2)
    values, x = generator.standard_normal((40, 96)).astype(np.float32), torch.from_numpy(generator.standard_normal((2, 5, 96)).astype(np.float32))
    packed = formats.quantise(name, values)
    bias = torch.arange(40.0)
    layer = from_packed(packed, bias=bias)
    assert torch.equal(layer(x), functional.linear(x, torch.from_numpy(formats.dequantise(packed)), bias))
    assert layer.stored_bytes == len(packed.data) and (layer.in_features, layer.out_features) == (96, 40)
    assert layer(x.bfloat16()).dtype == torch.bfloat16


def test_column_scales_and_rounded_inputs():
    values, scales = torch.randn(8, 64, generator=torch.Generator().manual_seed(1)), torch.linspace(0.25, 4, 64).half()
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(2))
    packed = formats.quantise("int8", (values * scales.float()).numpy())
    layer = from_packed(packed, column_scale=scales)
    assert torch.allclose(layer(x), x @ layer.weight().T, atol=1e-5) and torch.allclose(layer.weight(), values, atol=0.2)
    assert layer.stored_bytes == len(packed.data) + 2 * 64
    rounded = rounded_per_token(x)
    codes = rounded / (x.abs().amax(1, keepdim=True) / 127)
    assert torch.allclose(codes, codes.round(), atol=1e-4) and (rounded - x).abs().max() <= x.abs().max() / 254 * 1.001
    assert torch.equal(rounded_per_token(torch.zeros(2, 4)), torch.zeros(2, 4))
    assert torch.equal(from_packed(packed, activations=True)(x), functional.linear(rounded, torch.from_numpy(formats.dequantise(packed))))


@pytest.mark.parametrize("name", EVERY)
def test_no_copy_in_full_precision_is_kept(name):
    """Live tensor memory after quantising, and after running, is the packed bytes: everything else has been let go."""
    made = model()
    weights = sum(target.weight().numel() for target in targets(made))
    before = live_bytes()
    found = quantise(made, parse_plan(name))
    freed = before - live_bytes()
    stored = sum(one.stored_bytes for one in found)
    assert stored < 4 * weights and math.isclose(freed, 4 * weights - stored, rel_tol=0.01)
    with torch.no_grad():
        made(IDS)
    assert before - live_bytes() == pytest.approx(freed, rel=0.01)


@pytest.mark.parametrize(("kind", "changes", "projections"), [
    ("Llama", {}, "q k v o gate up down"), ("Qwen2", {}, "q k v o gate up down"), ("Qwen3", {"head_dim": 16}, "q k v o gate up down"),
    ("GPT2", {}, "qkv o up down")], ids=str)
def test_models_of_transformers_are_quantised_in_place(kind, changes, projections, random_model):
    made = random_model(kind, **changes)
    with torch.no_grad():
        before = made(IDS % 64).logits
        originals = {target.name: target.weight().clone() for target in targets(made)}
    found = quantise(made, parse_plan("int8"))
    assert {one.projection for one in found} == set(projections.split()) and len(found) == 2 * len(projections.split())
    assert all(isinstance(target.module, QuantLinear) for target in targets(made))
    for target in targets(made):
        assert torch.equal(target.weight(), torch.from_numpy(formats.dequantise(formats.quantise("int8", originals[target.name].numpy()))))
    with torch.no_grad():
        after = made(IDS % 64).logits
    assert 0 < (after - before).abs().max() < 0.05 * before.abs().max()


def test_rules_say_which_projection_takes_what():
    rules = parse_plan("int4; down=q8_0; 1.v=int8:granularity=tensor+a8; 0.*=none; 2.q = q4_1+hqq")
    found = {(layer, name): scheme_of(rules, layer, name) for layer in range(3) for name in ("q", "v", "down")}
    assert found[0, "q"] is None and found[0, "down"] is None
    assert found[1, "q"].text == "int4" and found[1, "v"].text == "int8:granularity=tensor+a8" and found[1, "down"].text == "q8_0"
    assert found[2, "q"].text == "q4_1+hqq"
    made = model()
    quantised = {(one.layer, one.projection): one.scheme for one in quantise(made, rules)}
    assert len(quantised) == 14 and quantised[1, "v"].activations and not any(layer == 0 for layer, _ in quantised)
    assert isinstance(made.model.layers[0].mlp.down_proj, torch.nn.Linear)


@pytest.mark.parametrize("one", formats.FORMATS, ids=lambda one: one.id)
def test_every_format_and_option_can_be_written(one):
    assert parse(one.id).format == one.id and parse_plan(f"down={one.id}; {one.id}")[1].scheme.text == one.id
    for name, values in one.options:
        for value in values:
            scheme = parse(f"{one.id}:{name}={spelt(value)}+a8")
            assert scheme.options == ((name, value),) and scheme.format == one.id and parse(scheme.text) == scheme


@pytest.mark.parametrize("text", ["int4:group=32,symmetric=no+gptq-ordered+a8", "nf4:double=no", "q6_k", "int8+smoothquant+a8"])
def test_schemes_come_back_from_their_text(text):
    assert parse(text).text == text


@pytest.mark.parametrize(("text", "said"), [
    ("int3", "int3"), ("int4:group=48", "32"), ("int4:block=64", "block"), ("q8_0:group=32", "none"), ("nf4+gptq", "int4"),
    ("int4+gptq+awq", "one method"), ("int4+magic", "magic"), ("", "at least one"), ("down=", "down="), ("x.down=int4", "x.down")])
def test_schemes_that_make_no_sense_are_refused(text, said):
    with pytest.raises(InputError, match=said):
        parse_plan(text)


def test_what_cannot_be_quantised_is_told():
    with pytest.raises(InputError, match="list of blocks"):
        quantise(torch.nn.Linear(2, 2), parse_plan("int4"))
    with pytest.raises(InputError, match="layers 0 to 2 of"):
        quantise(model(), parse_plan("qkv=int4"))
    with pytest.raises(InputError, match="calibration"):
        quantise(model(), parse_plan("int4+awq"))
