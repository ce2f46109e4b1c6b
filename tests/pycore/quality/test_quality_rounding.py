"""A changed row alone gives what the whole tensor gives: the very bytes, for every format that is compared."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pycore.errors import InputError
from pycore.pack import formats
from pycore.quality import frontier, rounding
from pycore.quality.inspection import inspect
from pycore.quality.prepared import Methods
from pycore.quality.weights import Weights, drawn, edited, typed


def oracle(values: np.ndarray, one: frontier.Configuration) -> tuple[float, bytes]:
    """Packed and restored at once, past every cache."""
    packed = formats.quantise(one.format, values, **dict(one.options))
    return packed.bits_per_weight, formats.dequantise(packed).tobytes()


def ours(weights: Weights, one: frontier.Configuration) -> tuple[float, bytes]:
    """What the page takes."""
    bits, restored = rounding.rounded(weights, one.format, one.options)
    return bits, restored.tobytes()


def outcome(call: Callable, *arguments: object) -> object:
    """What a call returns, or why it refuses."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return call(*arguments)
    except InputError as fault:
        return str(fault)


@pytest.mark.parametrize("preset", ["normal", "outlier-channel", "heavy-tailed"])
@pytest.mark.parametrize(("rows", "columns"), [(12, 256), (7, 77), (3, 320)])
def test_rows_rounded_alone_are_the_rows_of_the_whole(preset, rows, columns):
    base = drawn(preset, 3, rows, columns)
    random = np.random.default_rng(rows)
    for edits in ("0=5", f"{columns - 1}=0, 3=-1e-9", f"{rows * columns - 1}=1e30",
                  ",".join(f"{columns + place}={value:.6g}" for place, value in enumerate(random.normal(size=columns)))):
        changed = edited(base, edits)
        assert changed.before is base and changed.touched
        for one in frontier.configurations():
            assert outcome(ours, changed, one) == outcome(oracle, changed.values, one), (one.id, edits)
            plain = replace(changed, before=None, touched=())
            assert str(frontier.measured(changed, one)) == str(frontier.measured(plain, one)), (one.id, edits)


def test_a_changed_row_alone_is_quantised(monkeypatch):
    """What the speed comes from: the rest of the tensor is not looked at again."""
    base = drawn("normal", 5, 64, 64)
    seen, quantise = [], formats.quantise

    def watched(name, values, **options):
        seen.append((name, len(values)))
        return quantise(name, values, **options)

    for one in frontier.configurations():
        rounding.rounded(base, one.format, one.options)
    monkeypatch.setattr(rounding.formats, "quantise", watched)
    changed = edited(base, "70=0.5")
    for one in frontier.configurations():
        rounding.rounded(changed, one.format, one.options)
    assert {name for name, rows in seen if rows == 64} == {"int8", "nf4", "fp8-e4m3", "nvfp4", "bitnet-2bit", "bitnet-5in8"}
    assert sum(rows == 1 for _, rows in seen) == 24


@pytest.mark.parametrize("preset", ["normal", "outlier-channel"])
def test_blocks_of_untouched_rows_are_kept_and_the_same(preset):
    base = drawn(preset, 4, 9, 200)
    for one in formats.FORMATS:
        for edits in ("0=0.5", "199=0,200=-0.3,1799=1e-4"):
            changed = edited(base, edits)
            plain = replace(changed, before=None, touched=())
            assert inspect(changed, one.id, (), Methods()).blocks == inspect(plain, one.id, (), Methods()).blocks, one.id


def test_what_is_refused_is_refused_in_the_same_words():
    base = drawn("normal", 5, 6, 64)
    int8 = next(one for one in frontier.configurations() if one.id == "int8")
    bad = edited(base, "200=nan")
    _, sqnr, _, fault = frontier.measured(bad, int8)
    assert math.isnan(sqnr) and fault == frontier.measured(replace(bad, before=None), int8)[3] != ""
    mended = edited(typed("1,nan,2,3;4,5,6,7;1,2,3,4"), "1=0.5")
    assert frontier.measured(mended, int8)[3] == ""
    assert frontier.measured(mended, int8) == frontier.measured(replace(mended, before=None), int8)


def test_large_weights_are_not_kept_by_format(monkeypatch):
    monkeypatch.setattr(rounding, "MOST_KEPT", 100)
    base = drawn("normal", 9, 8, 64)
    before = rounding.whole.cache_info().currsize
    one = frontier.configurations()[0]
    rounding.rounded(base, one.format, one.options)
    changed = edited(base, "3=1")
    assert ours(changed, one) == oracle(changed.values, one)
    assert rounding.whole.cache_info().currsize == before


@pytest.mark.parametrize("text", ["1,,2", "1, ,2;3,4,5", ",,"])
def test_a_number_left_out_is_told_not_skipped(text):
    with pytest.raises(InputError, match="between two commas"):
        typed(text)
    assert typed("[1, 2],\n[3, 4]").values.tolist() == [[1, 2], [3, 4]]
