"""GPTQ, AWQ, SmoothQuant, HQQ: each against a reference, its own promise, or the plain format."""

import numpy as np
import pytest
import torch

from pycore.errors import InputError
from pycore.pack import formats, q4_1
from pycore.pack import gptq as small
from pycore.pack.grid import Grid
from runtime.quantbench import gptq, half_quadratic, scaling
from runtime.quantbench.calibrate import Moments, empty, walk
from runtime.quantbench.convert import quantise, quantised_layer
from runtime.quantbench.schemes import parse, parse_plan
from runtime.quantbench.targets import targets


def layer(rows: int = 48, columns: int = 256, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights, and inputs that are correlated and of unequal size, as a model's are."""
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(columns, columns, generator=generator) * 0.15 + torch.eye(columns)
    inputs = torch.randn(4 * columns, columns, generator=generator) @ mixed * torch.rand(columns, generator=generator).exp() ** 2
    return torch.randn(rows, columns, generator=generator), inputs


def moments_of(inputs: torch.Tensor) -> Moments:
    found = empty(inputs.shape[1])
    found.add(inputs)
    return found


def output_error(weight: torch.Tensor, restored: torch.Tensor, inputs: torch.Tensor) -> float:
    return float(((weight - restored) @ inputs.T).double().square().sum())


def restored(packed) -> torch.Tensor:
    return torch.from_numpy(formats.dequantise(packed))


def plain_cholesky(weight: torch.Tensor, gram: torch.Tensor, group: int, grid: Grid, damping: float) -> torch.Tensor:
    """GPTQ as the paper prints it, a column at a time, no blocks: the reference (Frantar 2022, algorithm 1)."""
    hessian = 2 * gram + damping * (2 * gram).diagonal().mean() * torch.eye(len(gram), dtype=torch.float64)
    upper = torch.linalg.cholesky(torch.linalg.inv(hessian)).mH
    work, out = weight.double().clone(), torch.zeros_like(weight)
    for i in range(weight.shape[1]):
        if i % group == 0:
            scales, zeros = grid.parameters(work[:, i:i + group].float().numpy())
        out[:, i:i + 1] = torch.from_numpy(grid.values(grid.nearest(work[:, i:i + 1].float().numpy(), scales, zeros), scales, zeros))
        work[:, i:] -= ((work[:, i] - out[:, i]) / upper[i, i])[:, None] * upper[i, i:]
    return out


@pytest.mark.parametrize("options", [{"group": 64}, {"group": 32, "symmetric": False}, {"group": 128, "levels": 16}], ids=str)
def test_gptq_comes_within_a_hundredth_of_a_plain_cholesky_and_beats_rounding(options):
    weight, inputs = layer()
    gram = moments_of(inputs).gram
    ours = output_error(weight, restored(gptq.quantise(weight, gram, **options)), inputs)
    grid = Grid(bits=4, symmetric=options.get("symmetric", True), full=options.get("levels") == 16)
    reference = output_error(weight, plain_cholesky(weight, gram, options["group"], grid, gptq.DAMPING), inputs)
    rounding = output_error(weight, restored(formats.quantise("int4", weight.numpy(), **options)), inputs)
    assert abs(ours / reference - 1) < 0.01 and ours < 0.8 * rounding


@pytest.mark.parametrize("ordered", [False, True])
def test_gptq_takes_the_steps_of_the_core_s_own(ordered):
    """The core's walks column by column in a fixed order of sums, without LAPACK or blocks."""
    weight, inputs = layer(rows=6, columns=64, seed=5)
    gram = moments_of(inputs).gram
    packed = gptq.quantise(weight, gram, ordered=ordered, group=32, scale_type="float16")
    core = small.quantise(weight.numpy(), small.hessian(inputs.numpy(), gptq.DAMPING), grid=Grid(), group=32, act_order=ordered)
    assert np.mean(packed.codes.reshape(6, 64) == core.codes) > 0.99
    assert output_error(weight, restored(packed), inputs) == pytest.approx(output_error(weight, torch.from_numpy(core.restored), inputs), rel=0.02)


def test_the_common_bug_is_worse():
    """Rows of the plain inverse Hessian instead of its factor: what a published package does."""
    weight, inputs = layer(rows=16, columns=128, seed=2)
    matrix = small.hessian(inputs.numpy(), gptq.DAMPING)
    wrong = small.quantise(weight.numpy(), matrix, grid=Grid(), group=64, factor="plain-inverse-bug")
    ours = restored(gptq.quantise(weight, moments_of(inputs).gram, group=64))
    assert output_error(weight, ours, inputs) < 0.9 * output_error(weight, torch.from_numpy(wrong.restored), inputs)


@pytest.mark.parametrize("ordered", [False, True])
def test_groups_stay_within_rows(ordered):
    """At most 15 values under each scale, in every row's every group: the packed file can be read by a kernel."""
    weight, inputs = layer(rows=5, columns=160)
    packed = gptq.quantise(weight, moments_of(inputs).gram, ordered=ordered, group=64)
    found = restored(packed).numpy()
    for row in found:
        assert all(len(np.unique(row[start:start + 64])) <= 15 for start in range(0, 160, 64))
    again = formats.read("int4", packed.data, (5, 160), group=64)
    assert np.array_equal(formats.dequantise(again), found) and packed.stride == 192


def test_dead_inputs_and_too_few_samples_do_no_harm():
    weight, inputs = layer(rows=4, columns=64)
    inputs[:, 7] = 0
    assert torch.isfinite(restored(gptq.quantise(weight, moments_of(inputs[:9]).gram, group=32))).all()
    with pytest.raises(InputError, match="positive definite"):
        gptq.quantise(weight, -moments_of(inputs).gram, group=32)


def test_awq_is_never_worse_on_its_inputs_and_better_where_few_columns_count():
    weight, inputs = layer(rows=32, columns=128, seed=1)
    inputs[:, ::31] *= 20
    found = moments_of(inputs)
    plain = quantised_layer(weight, None, parse("int4:group=128"), found).weight()
    scaled = quantised_layer(weight, None, parse("int4:group=128+awq"), found)
    assert output_error(weight, scaled.weight(), inputs) < 0.7 * output_error(weight, plain, inputs)
    even = moments_of(torch.ones(8, 128))
    assert torch.equal(scaling.search(weight, even, lambda one: one.round()), torch.ones(128).half())


def test_smoothquant_s_scales_are_the_paper_s_and_pay_when_activations_are_rounded():
    weight, inputs = layer(rows=32, columns=128, seed=3)
    inputs[:, 5] *= 60
    found = moments_of(inputs)
    expected = inputs.abs().amax(0).sqrt() / weight.abs().amax(0).sqrt()
    assert torch.allclose(scaling.smooth_scales(weight, found).float(), expected, rtol=1e-3)
    exact = inputs @ weight.T
    errors = [float((quantised_layer(weight, None, parse(text), found)(inputs) - exact).square().sum())
              for text in ("int8+a8", "int8+smoothquant+a8")]
    assert errors[1] < 0.5 * errors[0]


def test_hqq_lowers_the_loss_that_it_is_for():
    values = torch.from_numpy(np.random.default_rng(0).standard_t(3, (16, 256)).astype(np.float32))
    fitted, plain = half_quadratic.quantise(values), q4_1.quantise(values.numpy())

    def loss(packed) -> float:
        return float((values - restored(packed)).abs().pow(half_quadratic.POWER).sum())

    assert loss(fitted) < 0.97 * loss(plain) and len(fitted.data) == len(plain.data)
    assert np.array_equal(formats.dequantise(formats.read("q4_1", fitted.data, (16, 256))), formats.dequantise(fitted))
    flat = half_quadratic.quantise(torch.full((2, 32), 0.5))
    assert np.array_equal(formats.dequantise(flat), np.full((2, 32), 0.5, np.float32))


@pytest.mark.parametrize(("draw", "theirs", "minmax"), [(lambda one: one.standard_t(3, (64, 512)), 455.667, 466.701),
                                                        (lambda one: one.standard_normal((64, 512)), 285.467, 290.529)], ids=["heavy tails", "normal"])
def test_hqq_reaches_what_the_hqq_package_reaches(draw, theirs, minmax):
    """`theirs` and `minmax`: sum |error|^0.7 of hqq 0.2.8 on these values, 4 bits in groups of 32, with and without its
    optimiser (axis=1, round_zero=False, float32, on a processor; float32 zeros where ours are float16)."""
    values = torch.from_numpy((draw(np.random.default_rng(0)) * 0.02).astype(np.float32))
    losses = [float((values - restored(packed)).abs().pow(0.7).sum()) for packed in (half_quadratic.quantise(values), q4_1.quantise(values.numpy()))]
    assert losses[0] < theirs and losses[1] == pytest.approx(minmax, rel=0.005)


def test_statistics_are_those_of_what_goes_in(random_model):
    made = random_model("Llama")
    windows, seen = torch.randint(64, (3, 10), generator=torch.Generator().manual_seed(0)), {}
    handles = [target.module.register_forward_pre_hook(lambda module, given, name=target.name: seen.setdefault(name, []).append(given[0]))
               for target in targets(made)]
    with torch.no_grad():
        for window in windows:
            made(window[None])
    for handle in handles:
        handle.remove()
    for step in walk(made, windows):
        for name, moments in step.moments.items():
            inputs = torch.cat([one.reshape(-1, one.shape[-1]) for one in seen[name]])
            assert moments.samples == 30 and torch.allclose(moments.gram.float(), inputs.T @ inputs, rtol=1e-3, atol=1e-3)
            assert torch.allclose(moments.largest, inputs.abs().amax(0)) and torch.allclose(moments.mean.float(), inputs.abs().mean(0), rtol=1e-4)


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "GPT2"])
def test_gptq_of_a_whole_model_keeps_its_answers_closer_than_rounding(kind, random_model):
    windows = torch.randint(64, (24, 32), generator=torch.Generator().manual_seed(1))
    losses = {}
    for text in ("int4:group=32", "int4:group=32+gptq"):
        made = random_model(kind)
        with torch.no_grad():
            before = made(windows).logits.log_softmax(-1)
            quantise(made, parse_plan(text), calibration=windows)
            losses[text] = float((before.exp() * (before - made(windows).logits.log_softmax(-1))).sum(-1).mean())
    assert losses["int4:group=32+gptq"] < 0.9 * losses["int4:group=32"]
