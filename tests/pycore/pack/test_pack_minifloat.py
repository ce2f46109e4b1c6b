"""Floats of 4 and 8 bits beside `ml_dtypes` and torch: every code, and a million floats with all their ties."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch

from pycore.errors import InputError
from pycore.pack import fp8, minifloat
from pycore.pack.minifloat import E2M1, E4M3FN, E5M2

REFERENCE = {"E4M3FN": ml_dtypes.float8_e4m3fn, "E5M2": ml_dtypes.float8_e5m2, "E2M1": ml_dtypes.float4_e2m1fn}
KINDS = (E4M3FN, E5M2, E2M1)


def floats(kind: minifloat.Minifloat) -> np.ndarray:
    """A million floats of any bits and half a million of likely size; every tie and its two neighbours; the specials."""
    draw = np.random.default_rng(7)
    table = minifloat.table(kind)
    levels = np.sort(table[np.isfinite(table)])
    ties = ((levels[1:].astype(np.float64) + levels[:-1]) / 2).astype(np.float32)
    bits = draw.integers(0, 1 << 32, 1_000_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    likely = (draw.normal(size=500_000) * 10 ** draw.uniform(-6, 6, 500_000)).astype(np.float32)
    top = np.float32(kind.largest) * np.array([1, 1.01, 1.07, 1.08, 1.125, 1.126, 2], np.float32)
    specials = np.array([np.inf, -np.inf, np.nan, -np.nan, 0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38], np.float32)
    around = [np.nextafter(ties, np.float32(way)) for way in (-np.inf, np.inf)]
    return np.concatenate([bits, likely, levels, ties, *around, top, -top, specials])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_code_stands_for_what_ml_dtypes_says(kind):
    expected = np.arange(kind.codes, dtype=np.uint8).view(REFERENCE[kind.name]).astype(np.float32)
    assert np.array_equal(minifloat.decode(np.arange(kind.codes, dtype=np.uint8), kind), expected, equal_nan=True)
    assert [math.copysign(1, minifloat.value(kind, code)) for code in (0, kind.sign)] == [1, -1]


def test_every_power_of_two_is_what_ml_dtypes_says():
    codes = np.arange(256, dtype=np.uint8)
    expected = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    assert np.array_equal(minifloat.power_of_two(codes), expected, equal_nan=True)
    powers = minifloat.power_of_two(codes[1:255])
    assert np.array_equal(minifloat.exponents(powers) + 127, codes[1:255])
    assert np.array_equal(powers.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8), codes[1:255])
    below = np.nextafter(powers[1:], np.float32(0))
    assert np.array_equal(minifloat.exponents(below) + 127, codes[1:254])  # the floor, however close to the next power


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_nan_mode_rounds_as_ml_dtypes(kind):
    values = floats(kind)
    if kind is E2M1:
        values = values[np.isfinite(values)]
    with np.errstate(all="ignore"):
        expected = values.astype(REFERENCE[kind.name]).view(np.uint8)
    found = minifloat.encode(values, kind, "nan")
    if kind is E5M2:  # any NaN will do where there are three: ml_dtypes takes 0x7E, torch 0x7F
        expected = np.where(np.isnan(values), expected | 3, expected)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("kind", "overflow", "dtype"), [(E4M3FN, "saturate", torch.float8_e4m3fn), (E5M2, "nan", torch.float8_e5m2)],
                         ids=("E4M3FN", "E5M2"))
def test_torch_saturates_e4m3_and_overflows_e5m2(kind, overflow, dtype):
    values = floats(kind)
    expected = torch.tensor(values).to(dtype).view(torch.uint8).numpy()
    assert np.array_equal(minifloat.encode(values, kind, overflow), expected)


def test_the_two_overflows_differ_where_they_say():
    values = np.array([448, 464, 465, 1e9, np.inf, -np.inf, np.nan], np.float32)
    assert minifloat.encode(values, E4M3FN, "saturate").tolist() == [0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x7F]
    assert minifloat.encode(values, E4M3FN, "nan").tolist() == [0x7E, 0x7E, 0x7F, 0x7F, 0x7F, 0xFF, 0x7F]
    assert minifloat.encode(np.float32([1e9, np.inf]), E5M2, "saturate").tolist() == [0x7B, 0x7B]
    assert minifloat.encode(np.float32([1e9, np.inf]), E5M2, "nan").tolist() == [0x7C, 0x7C]


def test_an_unscaled_cast_takes_nan_and_a_scaled_one_refuses_it():
    packed = fp8.quantise([1.0, math.nan, math.inf], granularity="none", overflow="nan")
    assert packed.data == bytes([0x38, 0x7F, 0x7F]) and packed.bits_per_weight == 8
    with pytest.raises(InputError, match="index 1"):
        fp8.quantise([1.0, math.nan], granularity="channel")
