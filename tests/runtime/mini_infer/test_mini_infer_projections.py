"""Ways of multiplying: the same product every way, the fastest chosen, and 8 bits against whole-number arithmetic."""

import copy

import numpy
import pytest
import torch
from mini_infer_driving import text
from torch.nn import functional

from pycore.errors import InputError
from runtime.mini_infer import autotune, projections
from runtime.mini_infer.model import Projection
from runtime.mini_infer.projections import Eight, Tuned, by_columns, by_rows, by_vector, widest_code
from runtime.mini_infer.quality import compare, logits
from runtime.mini_infer.setup import prepare


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def own(model):
    """A copy whose projections may be replaced."""
    return copy.deepcopy(model)


@pytest.mark.parametrize("stored", ["rows", "columns"])
@pytest.mark.parametrize("bias", [None, drawn(48, seed=2)], ids=["no bias", "bias"])
@pytest.mark.parametrize(("way", "rows"), [(by_rows, 5), (by_columns, 1), (by_columns, 5), (by_vector, 1)])
def test_every_way_gives_the_same_product(way, rows, bias, stored):
    x, weight = drawn(rows, 32), drawn(48, 32, seed=1)
    expected = functional.linear(x.double(), weight.double(), None if bias is None else bias.double()).float()
    found = way(x, weight if stored == "rows" else weight.t().contiguous().t(), bias)
    assert found.is_contiguous()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("rows", "way"), [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (9, 3), (1000, 3)])
def test_the_way_is_that_of_the_number_of_rows(rows, way):
    called = []
    ways = tuple(lambda x, weight, bias, index=index: called.append(index) for index in range(4))
    Tuned(drawn(2, 2), None, (ways[0], *ways))(drawn(rows, 2))
    assert called == [way]


def told(monkeypatch, seconds) -> None:
    """Calls take what `seconds(way, rows, stored by columns)` says."""
    monkeypatch.setattr(autotune, "SMALL_BYTES", 0)
    monkeypatch.setattr(autotune, "_call", lambda way, x, weight, clock: seconds(way, len(x), not weight.is_contiguous()))


def test_the_fastest_ways_and_the_storage_that_loses_least_are_taken(monkeypatch, pairs):
    def seconds(way, rows, columns):
        if way is by_vector:
            return 0.5
        return (1.0 if columns else 2.0) * (0.5 if way is by_columns and rows >= 8 else 1.0)

    told(monkeypatch, seconds)
    model = own(pairs["Qwen2"][0])
    plain = {name: tensor.clone() for name, tensor in model.places()}
    said = autotune.tune(model)
    assert "qkv stored by columns: vector 1, rows 2-4, columns 8-128" in said
    for layer in model.layers:
        assert layer.down.ways[:2] == (by_vector, by_vector) and layer.down.ways[3] is by_rows and layer.down.ways[4] is by_columns
        assert layer.down.weight.t().is_contiguous()
    assert model.configuration.tied and model.embedding is model.head.weight
    assert all(torch.equal(tensor, plain[name]) for name, tensor in model.places())


def test_what_is_hardly_faster_is_left_alone(monkeypatch, pairs):
    told(monkeypatch, lambda way, rows, columns: (0.97 if columns else 1.0) * (0.97 if way is not by_rows else 1.0))
    model = own(pairs["Llama"][0])
    autotune.tune(model)
    assert all(set(layer.out.ways) == {by_rows} and layer.out.weight.is_contiguous() for layer in model.layers)


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize("columns", [True, False])
def test_tuned_models_have_the_logits_of_the_others(kind, columns, monkeypatch, pairs):
    told(monkeypatch, lambda way, rows, stored: (1.0 if stored == columns else 2.0) * (1.0 if way is by_columns else 1.5))
    model, tokens = own(pairs[kind][0]), text(40)
    before = logits(model, tokens)
    autotune.tune(model)
    assert {type(layer.qkv) for layer in model.layers} == {Tuned}
    torch.testing.assert_close(logits(model, tokens), before, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits(model, tokens, chunk=1), before, atol=1e-5, rtol=1e-5)


def layered(layers: int) -> dict[str, list[torch.Tensor]]:
    return {name: [drawn(24, 16, seed=seed) for seed in range(layers)] for name in projections.NAMES} | {"head": [drawn(40, 16)]}


def test_measuring_measures_and_small_models_are_not_measured(pairs):
    trials = autotune.tried(layered(3), iter(range(10**6)).__next__)
    assert set(trials) == {*projections.NAMES, "head"}
    for trial in trials.values():
        assert len(trial.seconds) == len(autotune.ROWS) and all(set(ways) >= {by_rows, by_columns} for ways in trial.seconds)
        assert all(seconds == 1 for size in trial.seconds for seconds in size.values())
    model = own(pairs["Llama"][0])
    assert "small" in autotune.tune(model) and type(model.head) is Projection


def test_weights_are_walked_through_as_a_step_does_and_no_further_than_the_limits(monkeypatch):
    """Layer by layer and not one matrix again and again: what a cache holds is not how a step finds it."""
    weights, called = layered(4), []
    names = {one.data_ptr(): (name, index) for name, some in weights.items() for index, one in enumerate(some)}

    def call(way, x, weight, clock):
        called.append((names[weight.data_ptr()], len(x)))
        return 1.0

    monkeypatch.setattr(autotune, "_call", call)
    found = autotune.measured(weights, False, lambda: 0.0)
    step = [*((name, index) for index in range(4) for name in projections.NAMES), ("head", 0)]
    assert [name for name, rows in called if rows == 1] == step * autotune.ROUNDS * 3
    assert {trial.seconds[0][by_rows] for trial in found.values()} == {1.0}

    called.clear()
    monkeypatch.setattr(autotune, "MOST_PRODUCTS", 8 * 4 * 24 * 16)  # two layers of four at 4 rows; the head up to 19
    found = autotune.measured(weights, False, lambda: 0.0)
    reached = {rows: max(index for (_, index), count in called if count == rows) + 1 for rows in autotune.ROWS}
    assert reached == {1: 4, 2: 4, 4: 2, 8: 1, 16: 1, 32: 1, 64: 1, 128: 1}
    assert len(found["head"].seconds) == 5 and len(found["down"].seconds) == 8

    seen = []
    monkeypatch.setattr(autotune, "MOST_BYTES", (40 + 2 * 4 * 24) * 16 * 4)  # the head's, and two layers'
    monkeypatch.setattr(autotune, "measured", lambda some, columns, clock: seen.append(some) or found)
    autotune.tried(weights, lambda: 0.0)
    assert [{name: len(one) for name, one in some.items()} for some in seen] == [dict.fromkeys(projections.NAMES, 2) | {"head": 1}] * 2


def whole_numbers(x: torch.Tensor, weight: torch.Tensor, widest: int) -> numpy.ndarray:
    """What 8 bits should give, in whole numbers and float64."""
    x, weight = x.double().numpy(), weight.double().numpy()
    rows, outputs = numpy.abs(x).max(1, keepdims=True), numpy.abs(weight).max(1) / widest
    codes = numpy.rint(numpy.float32(x / rows * 127)).astype(int)
    return codes @ numpy.rint(weight / outputs[:, None]).astype(int).T * outputs * rows / 127


@pytest.mark.parametrize("widest", [127, 63])
def test_eight_bits_are_whole_number_arithmetic_scaled_by_row_and_output(widest):
    if widest > widest_code():
        widest = 63  # this CPU's kernel overflows with 8-bit weights, which is why 7 are used
    x, weight = drawn(9, 64), drawn(48, 64, seed=1)
    x[4] *= 1000  # one token's size is nobody else's matter
    expected = whole_numbers(x, weight, widest)
    found = Eight(weight, None, widest)(x).numpy()
    # A number half-way between two codes may be rounded either way: one step of one product.
    step = numpy.abs(x.numpy()).max(1, keepdims=True) / 127 * numpy.abs(weight.numpy()).max(1)
    assert (numpy.abs(found - expected) <= 1.01 * step).all()
    assert (numpy.abs(found - expected) <= 1e-5 * numpy.abs(expected).max(1, keepdims=True)).mean() > 0.99


@pytest.mark.parametrize("fine", [False, True])
def test_a_token_in_eight_bits_does_not_depend_on_the_others(fine):
    one = Eight(drawn(48, 64, seed=1), drawn(48, seed=2), 63, fine=fine)
    x = drawn(17, 64)
    assert torch.equal(torch.cat([one(row[None]) for row in x]), one(x))


def test_zero_rows_and_biases():
    bias = drawn(48, seed=2)
    assert torch.equal(Eight(drawn(48, 64), bias, 63)(torch.zeros(2, 64)), bias.expand(2, 48))


def test_finer_inputs_err_by_the_weights_alone():
    x, weight = drawn(30, 64), drawn(48, 64, seed=1)
    rounded = (weight / (weight.abs().amax(1, keepdim=True) / 63)).round() * (weight.abs().amax(1, keepdim=True) / 63)
    exact = x @ rounded.t()
    coarse, finer = ((Eight(weight, None, 63, fine=fine)(x) - exact).square().mean().sqrt() for fine in (False, True))
    assert finer < coarse / 50


@pytest.mark.parametrize("linear", ["int8", "int8-fine"])
def test_a_model_in_eight_bits_errs_within_bounds(linear, pairs):
    model, tokens = own(pairs["Qwen2"][0]), text(60)
    before = logits(model, tokens)
    prepare(model, linear, lambda said: None)
    error = compare(before, logits(model, tokens), tokens)
    assert 0 < error.logit_error < (0.1 if linear == "int8" else 0.05)
    with pytest.raises(InputError, match="open it anew"):
        prepare(model, "auto", lambda said: None)
    prepare(model, linear, lambda said: None)


def test_without_a_kernel_float32_stands_in_and_that_is_said(monkeypatch, pairs):
    monkeypatch.setattr(projections, "widest_code", lambda: None)
    model, said, tokens = own(pairs["Llama"][0]), [], text(20)
    before = logits(model, tokens)
    prepare(model, "int8", said.append)
    assert "float32 stands in" in said[0]
    assert torch.equal(logits(model, tokens), before)


def test_a_kernel_that_overflows_gets_seven_bits_and_one_that_is_gone_none(monkeypatch):
    class Overflows(Eight):
        def __call__(self, x):
            found = super().__call__(x)
            return found.clamp(max=32767.0 / 127) if self.nbytes and found.max() > 64 * 100 else found

    assert widest_code() in (127, 63)
    monkeypatch.setattr(projections, "Eight", Overflows)
    assert widest_code() == 63
    monkeypatch.setattr(projections, "engines", lambda: ["none"])
    assert widest_code() is None
