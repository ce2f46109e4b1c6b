"""GPTQ, rotation, SmoothQuant and AWQ: against plain linear algebra, against rounding, and against their own promises."""

import math

import numpy as np
import pytest

from pycore.errors import InputError
from pycore.pack import formats, gptq, int4, linear, measures, rotation, smoothing
from pycore.pack.grid import Grid


def layer(seed: int, rows: int = 24, columns: int = 64, samples: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Weights, and correlated inputs with a few loud columns."""
    draw = np.random.default_rng(seed)
    mix = draw.normal(size=(columns, columns)) / math.sqrt(columns) + np.eye(columns)
    inputs = draw.normal(size=(samples, columns)) @ mix * np.exp(0.5 * draw.normal(size=columns))
    return draw.normal(size=(rows, columns)).astype(np.float32), inputs.astype(np.float32)


def reference(weights: np.ndarray, hessian: np.ndarray, grid: Grid, group: int) -> np.ndarray:
    """GPTQ in the six lines of the paper, with numpy's own inverse and Cholesky."""
    work, restored = weights.astype(np.float64).copy(), np.zeros_like(weights, dtype=np.float64)
    upper = np.linalg.cholesky(np.linalg.inv(hessian)).T
    for column in range(work.shape[1]):
        if column % group == 0:
            scales, zeros = grid.parameters(work[:, column:column + group].astype(np.float32))
        current = work[:, column:column + 1].astype(np.float32)
        restored[:, column:column + 1] = grid.values(grid.nearest(current, scales, zeros), scales, zeros)
        work[:, column:] -= np.outer((work[:, column] - restored[:, column]) / upper[column, column], upper[column, column:])
    return restored


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("bits", "group"), [(4, 32), (4, 0), (3, 32)])
def test_gptq_beats_rounding_and_is_within_one_percent_of_plain_cholesky(bits, group, seed):
    weights, inputs = layer(seed)
    grid, matrix = Grid(bits=bits), gptq.hessian(inputs)
    found = gptq.quantise(weights, matrix, grid=grid, group=group)
    rounded = gptq.round_to_nearest(weights, matrix, grid=grid, group=group)
    expected = gptq.objective(weights, reference(weights, matrix, grid, group or 64), matrix)
    assert found.objective < 0.8 * rounded.objective
    assert found.objective == pytest.approx(expected, rel=0.01)
    assert gptq.quantise(weights, matrix, grid=grid, group=group, act_order=True).objective < 0.8 * rounded.objective


def test_the_objective_is_the_squared_error_of_the_outputs():
    weights, inputs = layer(9)
    found = gptq.round_to_nearest(weights, gptq.hessian(inputs, damping=0))
    outputs = (weights.astype(np.float64) - found.restored) @ inputs.T.astype(np.float64)
    assert found.objective == pytest.approx(2 * (outputs**2).sum(), rel=1e-9)


def test_the_common_bug_costs_what_it_costs():
    worse = []
    for seed in range(4):
        weights, inputs = layer(seed)
        matrix = gptq.hessian(inputs)
        right, wrong = (gptq.quantise(weights, matrix, grid=Grid(bits=3), group=32, factor=factor).objective
                        for factor in gptq.FACTORS)
        worse.append(wrong / right)
    assert min(worse) > 1.05


def test_gptq_gives_an_int4_tensor_that_can_be_deployed():
    weights, inputs = layer(2)
    for symmetric in (True, False):
        grid = Grid(symmetric=symmetric)
        found = gptq.quantise(weights, gptq.hessian(inputs), grid=grid, group=32)
        options = {"group": 32, "symmetric": symmetric, "levels": 15, "nibble_order": "low-first", "scale_type": "float16"}
        packed = int4.made(found.codes.reshape(-1, 32), found.scales.reshape(-1, 1), found.zeros.reshape(-1, 1),
                           weights.shape, **options)
        again = formats.read("int4", packed.data, packed.shape, **options)
        assert np.array_equal(formats.dequantise(again), found.restored)


def test_steps_push_the_error_on_and_fix_what_is_done():
    weights, inputs = layer(3, rows=3, columns=16)
    done, order = [], []
    for step in gptq.steps(weights, gptq.hessian(inputs), group=0, act_order=True):
        assert not np.any(step.factor[done]) and step.factor[step.column] != 0
        done.append(step.column)
        order.append(np.diagonal(gptq.hessian(inputs))[step.column])
        assert np.array_equal(step.weights[:, step.column], step.restored)
    assert sorted(done) == list(range(16)) and order == sorted(order, reverse=True)


def test_a_dead_input_and_a_singular_hessian():
    weights, inputs = layer(4)
    inputs[:, 5] = 0
    assert math.isfinite(gptq.quantise(weights, gptq.hessian(inputs)).objective)
    with pytest.raises(InputError, match="positive definite"):
        gptq.quantise(weights, gptq.hessian(inputs[:8], damping=0))
    with pytest.raises(InputError, match="columns"):
        gptq.quantise(weights, np.eye(63))
    with pytest.raises(InputError, match="divides"):
        gptq.quantise(weights, np.eye(64), group=48)
    with pytest.raises(InputError):
        gptq.hessian(inputs, damping=2)
    with pytest.raises(InputError):
        Grid(bits=1)


def test_linear_algebra_is_numpys():
    _, inputs = layer(5)
    matrix = gptq.hessian(inputs)
    assert np.allclose(linear.gram(inputs), inputs.T.astype(np.float64) @ inputs.astype(np.float64))
    assert np.allclose(linear.cholesky(matrix), np.linalg.cholesky(matrix))
    assert np.allclose(linear.inverse_factor(matrix), np.linalg.cholesky(np.linalg.inv(matrix)).T)
    assert np.allclose(linear.product(inputs[:5], matrix), inputs[:5].astype(np.float64) @ matrix)


@pytest.mark.parametrize("columns", [2, 64, 96])
def test_rotation_is_sylvesters_and_undone(columns):
    size = rotation.block_of(columns)
    matrix = np.array([[1.0]])
    while matrix.shape[0] < size:
        matrix = np.kron(np.array([[1, 1], [1, -1]]), matrix)
    values = np.random.default_rng(1).normal(size=(3, columns)).astype(np.float32)
    expected = (values.reshape(-1, size) @ matrix.T / math.sqrt(size)).reshape(values.shape)
    assert np.allclose(rotation.rotate(values, None), expected, atol=1e-6)
    assert np.allclose(rotation.rotate_back(rotation.rotate(values, 7), 7), values, atol=1e-6)
    inputs = np.random.default_rng(2).normal(size=(5, columns)).astype(np.float32)
    assert np.allclose(rotation.rotate(values) @ rotation.rotate(inputs).T, values @ inputs.T, atol=1e-5)


def test_rotation_rescues_rows_with_outliers():
    values = np.random.default_rng(0).normal(size=(16, 256)).astype(np.float32)
    values[:, 17] *= 40
    plain = measures.error(values, formats.dequantise(formats.quantise("int8", values)))
    turned = rotation.rotate_back(formats.dequantise(formats.quantise("int8", rotation.rotate(values))))
    assert measures.error(values, turned).sqnr_db > plain.sqnr_db + 6
    with pytest.raises(InputError, match="even"):
        rotation.rotate([[1.0, 2.0, 3.0]])


def test_smoothquant_balances_columns_and_keeps_the_product():
    weights, inputs = layer(6)
    inputs[:, 3] *= 100
    scales = smoothing.smooth_scales(weights, inputs, 0.5)
    assert np.allclose((weights * scales) @ (inputs / scales).T, weights @ inputs.T, rtol=1e-3, atol=1e-2)
    # At one half both sides end with the same largest magnitude in every column.
    assert np.allclose(np.abs(weights * scales).max(axis=0), np.abs(inputs / scales).max(axis=0), rtol=1e-4)
    with pytest.raises(InputError):
        smoothing.smooth_scales(weights, inputs[:, :-1])
    with pytest.raises(InputError):
        smoothing.smooth_scales(weights, inputs, 1.5)


def test_awq_lowers_the_output_error_and_never_raises_it():
    def restore(values: np.ndarray) -> np.ndarray:
        return formats.dequantise(formats.quantise("int4", values, group=64))

    weights, inputs = layer(7)
    inputs[:, :3] *= 20
    found = smoothing.awq(weights, inputs, restore)
    direct = ((weights.astype(np.float64) - found.restored) @ inputs.T.astype(np.float64)) ** 2
    assert found.output_error == pytest.approx(direct.sum(), rel=1e-6)
    assert found.output_error < 0.8 * found.tried[0][1] and len(found.tried) == smoothing.TRIES
    flat = smoothing.awq(weights, np.ones_like(inputs), restore)
    assert flat.alpha == 0 and np.all(flat.scales == 1)
