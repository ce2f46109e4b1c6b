"""INT8, 2:4 and nibble orders beside torch, and orders as other programs publish them."""

import numpy as np
import pytest
import torch
from pack_oracles import weights
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers torch.ops.quantized_decomposed)
from torch.sparse._semi_structured_conversions import (
    sparse_semi_structured_from_dense_cutlass,
    sparse_semi_structured_to_dense_cutlass,
)

from pycore.errors import InputError
from pycore.pack import int4, int8, nibbles, sparse, trits

HALVES = {"float16": torch.half, "bfloat16": torch.bfloat16}


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("granularity", ["tensor", "channel"])
def test_int8_codes_are_torchs_under_the_same_scales(granularity, symmetric):
    values = weights(32, 512)
    packed = int8.quantise(values, granularity=granularity, symmetric=symmetric)
    scales = torch.tensor(packed.scales).reshape(-1).double()
    zeros = torch.zeros_like(scales) if packed.zeros is None else torch.tensor(packed.zeros).reshape(-1)
    operator = torch.ops.quantized_decomposed
    if granularity == "tensor":
        codes = operator.quantize_per_tensor(torch.tensor(values), float(scales), int(zeros), -128, 127, torch.int8)
    else:
        codes = operator.quantize_per_channel(torch.tensor(values), scales, zeros.long(), 0, -128, 127, torch.int8)
    # torch multiplies by a reciprocal taken in float64 here and there: one code in ten thousand may round the other way.
    assert (codes.numpy() != packed.codes).mean() < 1e-4 and np.abs(codes.numpy().astype(int) - packed.codes).max() <= 1


def test_int4_nibbles_lie_as_published():
    codes = np.arange(16, dtype=np.uint8)
    assert nibbles.pack(codes, "low-first").tobytes().hex() == "1032547698badcfe"
    assert nibbles.pack(codes, "high-first").tobytes().hex() == "0123456789abcdef"
    # AutoAWQ: order_map = [0, 2, 4, 6, 1, 3, 5, 7]; word |= column[order_map[i]] << (i * 4)
    word = sum(int(codes[place]) << (4 * nibble) for nibble, place in enumerate((0, 2, 4, 6, 1, 3, 5, 7)))
    assert int.from_bytes(nibbles.pack(codes[:8], "awq").tobytes(), "little") == word
    # GPTQ: word |= row[j] << (4 * j), eight to a word
    word = sum(place << (4 * place) for place in range(8))
    assert int.from_bytes(nibbles.pack(codes[:8], "low-first").tobytes(), "little") == word


@pytest.mark.parametrize("order", nibbles.ORDERS)
@pytest.mark.parametrize("size", [8, 16, 2 * nibbles.CHUNK + 8])
def test_nibbles_come_back(order, size):
    codes = np.random.default_rng(size).integers(0, 16, size, dtype=np.uint8)
    assert np.array_equal(nibbles.unpack(nibbles.pack(codes, order), order), codes)
    assert np.array_equal(nibbles.unpack(nibbles.pack(codes, order).tobytes(), order), codes)


def test_trits_lie_as_drawn_and_come_back():
    codes = np.random.default_rng(0).integers(0, 3, 5 * 4 * trits.CHUNK + 20, dtype=np.uint8)
    two, five = trits.pack_2bit(codes), trits.pack_base3(codes)
    assert np.array_equal(two, codes[0::4] | codes[1::4] << 2 | codes[2::4] << 4 | codes[3::4] << 6)
    assert np.array_equal(five, sum(codes[place::5].astype(int) * 3**place for place in range(5)))
    assert np.array_equal(trits.unpack_2bit(two), codes) and np.array_equal(trits.unpack_base3(five), codes)
    every = np.arange(243, dtype=np.uint8)
    assert np.array_equal(trits.pack_base3(trits.unpack_base3(every)), every)


def pruned(rows: int, columns: int) -> np.ndarray:
    """Weights with every pattern of zeros among four, and ties."""
    values = np.random.default_rng(4).normal(size=(rows, columns)).astype(np.float32)
    for pattern in range(16):
        values[pattern, :4] = [(pattern >> bit & 1) * (bit + 1.0) for bit in range(4)]
    values[20] = np.sign(values[20])
    return values


@pytest.mark.parametrize("value_type", HALVES)
@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (32, 64), (64, 32), (96, 320)])
def test_2_4_values_and_metadata_are_those_of_torchs_cutlass_conversion(value_type, rows, columns):
    packed = sparse.quantise(pruned(rows, columns), value_type=value_type, metadata="cutlass")
    dense = torch.tensor(sparse.dequantise(packed)).to(HALVES[value_type])
    values, metadata = sparse_semi_structured_from_dense_cutlass(dense)
    assert packed.data == values.view(torch.int16).numpy().tobytes() + metadata.numpy().tobytes()
    back = sparse_semi_structured_to_dense_cutlass(values, metadata)
    assert np.array_equal(back.float().numpy(), sparse.dequantise(packed))


def test_2_4_keeps_the_two_largest_of_four_and_the_earlier_of_equals():
    packed = sparse.quantise([[0.5, -2.0, 1.0, -0.25, 1.0, 1.0, 1.0, 1.0]])
    assert sparse.dequantise(packed).tolist() == [[0, -2.0, 1.0, 0, 1.0, 1.0, 0, 0]]
    assert packed.codes.tolist() == [[0, 1, 2, 0, 1, 2, 0, 0]]
    assert packed.data[8:] == bytes([0b1001 | 0b0100 << 4])  # indexes 1 and 2; 0 and 1


@pytest.mark.parametrize("shape", [(31, 32), (32, 48), (32, 33)])
def test_cutlass_metadata_refuses_shapes_it_has_no_place_for(shape):
    with pytest.raises(InputError, match="plain takes any shape"):
        sparse.quantise(np.ones(shape, np.float32), metadata="cutlass")
    with pytest.raises(RuntimeError):
        sparse_semi_structured_from_dense_cutlass(torch.ones(shape, dtype=torch.half))


def test_metadata_with_indexes_that_do_not_rise_is_refused():
    packed = sparse.quantise([[1.0, 2.0, 0.0, 0.0] * 2])
    with pytest.raises(InputError, match="indexes"):
        sparse.read(packed.data[:-1] + b"\x55", packed.shape)


def test_a_group_of_int4_never_crosses_a_row():
    values = np.concatenate([np.full((1, 96), 0.001, np.float32), np.full((1, 96), 100.0, np.float32)])
    packed = int4.quantise(values, group=64)
    assert packed.stride == 128 and packed.scales.shape == (4, 1)
    assert np.allclose(int4.dequantise(packed)[0], 0.001, rtol=1e-3)
