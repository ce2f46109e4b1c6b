"""Measures against closed forms: Bennett's noise, SQNR of known errors, exact sums."""

import json
import math

import numpy as np
import pytest
from pack_oracles import weights

from pycore.errors import InputError
from pycore.pack import formats, int8, measures
from pycore.pack.sums import folded_sum


def test_measures_of_a_known_error():
    found = measures.error([3.0, 4.0], [3.0, 4.5])
    assert found.sqnr_db == pytest.approx(20.0) and found.max_error == 0.5 and found.mean_squared_error == 0.125
    assert found.cosine == pytest.approx((9 + 18) / (5 * math.sqrt(9 + 20.25)))


def test_no_error_is_infinite_and_no_signal_is_no_number():
    assert measures.error([1.0, 2.0], [1.0, 2.0]).sqnr_db == math.inf
    assert math.isnan(measures.error([0.0, 0.0], [0.0, 0.0]).sqnr_db)
    assert math.isnan(measures.error([0.0], [1.0]).cosine)
    json.dumps(measures.error([0.0], [1.0]).as_dict(), allow_nan=False)


@pytest.mark.parametrize("bits", [8])
def test_uniform_values_reach_bennetts_sqnr(bits):
    values = np.random.default_rng(0).uniform(-1, 1, (1, 1 << 18)).astype(np.float32)
    found = measures.error(values, int8.dequantise(int8.quantise(values)))
    # 254 steps over the range instead of 255: the symmetric grid leaves one code out.
    expected = measures.uniform_sqnr_db(bits=bits, crest=math.sqrt(3)).value + 20 * math.log10(254 / 255)
    assert found.sqnr_db == pytest.approx(expected, abs=0.05)
    assert measures.textbook_sqnr_db(bits=bits).value == pytest.approx(48.16, abs=0.01)
    assert measures.uniform_sqnr_db(bits=bits, crest=math.sqrt(3)).value == pytest.approx(48.13, abs=0.01)


def test_blocks_add_up_to_the_whole():
    values = weights(8, 100)[:4]
    restored = formats.dequantise(formats.quantise("q4_0", values))
    whole, blocks = measures.error(values, restored), measures.by_block(values, restored, 32)
    assert [one.weights for one in blocks[:4]] == [32, 32, 32, 4] and len(blocks) == 16
    assert math.fsum(one.mean_squared_error * one.weights for one in blocks) == pytest.approx(whole.mean_squared_error * 400)
    assert max(one.max_error for one in blocks) == whole.max_error
    first = measures.error(values[0, :32], restored[0, :32])
    assert blocks[0].mean_squared_error == pytest.approx(first.mean_squared_error)


def test_sums_are_as_good_as_exact_ones():
    values = np.random.default_rng(0).normal(size=12345)
    assert float(folded_sum(values)) == pytest.approx(math.fsum(values), rel=1e-13, abs=1e-11)
    table = np.random.default_rng(0).normal(size=(7, 3))
    assert np.allclose(folded_sum(table), table.sum(axis=0))


def test_compression_counts_every_stored_bit():
    packed = formats.quantise("sparse-2:4", weights(8, 64))
    term = measures.compression(weights=packed.weights, stored_bytes=len(packed.data), bits_before=16)
    assert term.value == 16 / 9 and term.basis == "derived"


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InputError, match="shape"):
        measures.error([1.0, 2.0], [[1.0, 2.0]])
    with pytest.raises(InputError, match="finite"):
        measures.error([1.0, math.nan], [1.0, 2.0])
