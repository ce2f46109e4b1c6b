"""What another quantisation bench (quantbench-engine 0.1.0) gets wrong, each measured from its own run: it must not happen here."""

import numpy as np
import pytest
from pack_oracles import weights

from pycore.pack import formats, gptq, measures
from pycore.pack.grid import Grid


@pytest.mark.parametrize(("name", "options", "peer_bits"), [("int4", {"group": 128}, None), ("sparse-2:4", {}, 17.0)])
def test_compression_is_counted_from_the_bytes_not_a_literal(name, options, peer_bits):
    """It prints 3.55x and 3.20x whatever the group; its own layer holds 3.765x (128), 3.556x (64), 3.2x (32)."""
    small, large = (formats.quantise(name, weights(8, columns), **options) for columns in (128, 1024))
    for packed in (small, large):
        found = measures.compression(weights=packed.weights, stored_bytes=len(packed.data), bits_before=16).value
        assert found == 16 / packed.bits_per_weight
    ratios = [16 / formats.quantise("int4", weights(8, 1024), group=group).bits_per_weight for group in (32, 64, 128)]
    assert ratios == [16 / 4.5, 16 / 4.25, 16 / 4.125]


def test_a_2_4_tensor_is_smaller_than_fp16():
    """It keeps 32-bit values beside the metadata: 17 bits a weight, 0.941x of FP16, shown as 1.60x."""
    assert formats.quantise("sparse-2:4", weights(64, 256), metadata="cutlass").bits_per_weight == 9.0 < 16


def test_nothing_lossy_is_better_than_what_it_was_made_from():
    """Its Pareto has ternary and 2:4 better than FP16, and FP16 at a constant 100 dB."""
    values = np.random.default_rng(0).normal(size=(64, 512)).astype(np.float32)
    found = {one.id: measures.error(values, formats.dequantise(formats.quantise(one.id, values))).sqnr_db
             for one in formats.FORMATS}
    half = measures.error(values, values.astype(np.float16)).sqnr_db
    assert 70 < half < 80  # about 6.02 x 11 bits + what rounding to nearest gives: measured, no constant
    assert all(sqnr < half for sqnr in found.values())
    assert found["bitnet-2bit"] == found["bitnet-5in8"] < found["sparse-2:4"] < found["int4"] < found["int8"] < half


def test_gptq_uses_the_cholesky_factor():
    """Its GPTQ spreads errors by rows of the plain inverse: 0.102 of output error where 0.080 is right and rounding 0.117."""
    draw = np.random.default_rng(1)
    mix = draw.normal(size=(128, 128)) / 11 + np.eye(128)
    inputs, values = (draw.normal(size=(512, 128)) @ mix).astype(np.float32), draw.normal(size=(32, 128)).astype(np.float32)
    matrix = gptq.hessian(inputs)
    right, bug = (gptq.quantise(values, matrix, grid=Grid(bits=3), group=32, factor=factor).objective for factor in gptq.FACTORS)
    assert right < 0.9 * min(bug, gptq.round_to_nearest(values, matrix, grid=Grid(bits=3), group=32).objective)


def test_gptq_groups_run_along_rows_so_that_the_format_can_hold_them():
    """Its groups run down one column: 211 distinct values in a row of 256 that 4 bits in groups of 128 limit to 32."""
    draw = np.random.default_rng(2)
    values, inputs = draw.normal(size=(8, 256)).astype(np.float32), draw.normal(size=(300, 256)).astype(np.float32)
    found = gptq.quantise(values, gptq.hessian(inputs), group=128)
    assert max(len(np.unique(row)) for row in found.restored) <= 2 * 16


def test_groups_do_not_cross_rows():
    """It flattens the tensor: with 96 columns and groups of 64 a scale is shared by the end of one row and the next."""
    values = np.stack([np.full(96, 1.0, np.float32), np.full(96, 1000.0, np.float32), np.full(96, 1.0, np.float32)])
    restored = formats.dequantise(formats.quantise("int4", values, group=64))
    assert np.allclose(restored, values, rtol=1e-3)
