"""What holds for every format: round trips, idempotence, odd sizes, bits that are accounted for one by one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from pack_oracles import weights

from pycore.errors import InputError, UnknownName
from pycore.pack import formats, nf4
from pycore.pack.formats import FORMATS

IDS = [one.id for one in FORMATS]
# Quantising what was quantised changes nothing. Left out: K-quants (their search fits anew), NVFP4 (block scales
# below E4M3's normal range), double NF4 (its offset moves).
IDEMPOTENT = {"int8": {}, "int4": {}, "nf4": {"double": False}, "fp8-e4m3": {}, "fp8-e5m2": {}, "mxfp4": {}, "q4_0": {},
              "q4_1": {}, "q5_0": {}, "q8_0": {}, "bitnet-2bit": {}, "bitnet-5in8": {}, "sparse-2:4": {}}
STABLE_IDS = ("int8", "int4", "nf4", "fp8-e4m3", "fp8-e5m2", "mxfp4", "nvfp4", "bitnet-2bit", "bitnet-5in8", "q4_0",
              "q8_0", "q4_k", "q6_k", "sparse-2:4")

magnitudes = st.floats(2.0**-7, 64, width=32)
numbers = st.one_of(st.just(0.0), magnitudes, magnitudes.map(lambda value: -value))
# Of three dimensions smaller sides: more numbers than hypothesis draws for one example are a fault of the test to it.
shapes = st.one_of(array_shapes(min_dims=1, max_dims=2, max_side=70), array_shapes(min_dims=3, max_dims=3, max_side=20))
tensors = arrays(np.float32, shapes, elements=numbers)


def variants() -> list:
    """Every format with every value of every option, the others at their defaults."""
    found = []
    for one in FORMATS:
        found.append(pytest.param(one.id, {}, id=one.id))
        for name, values in one.options:
            found += [pytest.param(one.id, {name: value}, id=f"{one.id}-{name}-{value}") for value in values[1:]]
    return found


def sized(name: str, options: dict) -> tuple[int, int]:
    """A shape with tails, except where the format refuses them."""
    return (32, 160) if options.get("metadata") == "cutlass" else (6, 147)


def test_the_ids_scripts_rely_on_are_there():
    assert set(STABLE_IDS) <= set(IDS) and len(set(IDS)) == len(IDS)


@pytest.mark.parametrize(("name", "options"), variants())
def test_bytes_read_back_give_the_same_weights(name, options):
    values = weights(32, 160)[: sized(name, options)[0], : sized(name, options)[1]]
    packed = formats.quantise(name, values, **options)
    again = formats.read(name, packed.data, packed.shape, **options)
    assert np.array_equal(formats.dequantise(again), formats.dequantise(packed))
    assert np.array_equal(again.codes, packed.codes) and again.data == packed.data
    assert packed.bits_per_weight == 8 * len(packed.data) / values.size


@pytest.mark.parametrize(("name", "options"), variants())
def test_every_bit_has_an_owner_and_every_weight_is_made_of_its_bits(name, options):
    values = weights(32, 160)[: sized(name, options)[0], : sized(name, options)[1]]
    packed = formats.quantise(name, values, **options)
    restored, sections = formats.dequantise(packed).reshape(-1), formats.sections(packed)
    assert sections[0].start == 0 and sections[-1].end == len(packed.data)
    assert all(left.end == right.start for left, right in zip(sections, sections[1:], strict=False))
    draw = np.random.default_rng(2)
    for index in {0, packed.columns - 1, packed.weights - 1, *draw.integers(0, packed.weights, 24).tolist()}:
        found = formats.fields_of(packed, index)
        assert math.isclose(weight(name, found), restored[index], rel_tol=2e-6, abs_tol=1e-12), (index, found)
        for field in found:
            for bit in field.bits:
                owner = formats.owner_of(packed, *divmod(bit, 8))
                assert index in owner.weights and owner.role == field.role and owner.section == field.section


@pytest.mark.parametrize("name", IDS)
def test_owners_are_exactly_the_weights_whose_fields_hold_the_bit(name):
    packed = formats.quantise(name, weights(8, 40)[:3, :37])
    holders: dict[int, set[int]] = {}
    for index in range(packed.weights):
        for field in formats.fields_of(packed, index):
            for bit in field.bits:
                holders.setdefault(bit, set()).add(index)
    for bit in range(8 * len(packed.data)):
        assert set(formats.owner_of(packed, *divmod(bit, 8)).weights) == holders.get(bit, set()), bit


def weight(name: str, found: tuple) -> float:
    """The weight from its fields alone, by the format's formula."""
    by = {field.name: field.value for field in found}
    if name == "int8":
        return (by["code"] - by.get("zero", 0)) * by["scale"]
    if name == "int4":
        return (by["code"] - by.get("zero", 8)) * by["scale"]
    if name == "nf4":
        return by["code"] * (by["scale"] if "scale" in by else by["scale code"] * by["second scale"] + by["offset"])
    if name.startswith("fp8") or name.endswith("fp4"):
        return math.prod(field.value for field in found)
    if name.startswith("bitnet"):
        return (found[0].value - 1) * found[1].value
    if name == "sparse-2:4":
        return by.get("value", 0.0)
    middle = {"q4_0": 8, "q5_0": 16, "q6_k": 32}.get(name, 0)
    return (by["code"] - middle) * by["d"] * by.get("group scale", 1) + by.get("m", 0) - (
        by.get("group minimum", 0) * by.get("dmin", 0))


@settings(max_examples=25)
@given(values=tensors)
@pytest.mark.parametrize("name", IDS)
def test_any_shape_comes_back_in_shape_within_the_formats_error(name, values):
    packed = formats.quantise(name, values)
    restored = formats.dequantise(packed)
    assert restored.shape == values.shape and restored.dtype == np.float32 and np.isfinite(restored).all()
    assert np.array_equal(formats.dequantise(formats.read(name, packed.data, packed.shape)), restored)
    if name not in ("sparse-2:4", "bitnet-2bit", "bitnet-5in8"):
        assert np.abs(restored - values).max() <= np.abs(values).max() * 0.55
    assert not restored[values == 0].any() or name in ("q4_1", "q4_k", "nf4")


@settings(max_examples=25)
@given(values=tensors)
@pytest.mark.parametrize("name", IDEMPOTENT)
def test_quantising_twice_changes_nothing(name, values):
    first = formats.quantise(name, values, **IDEMPOTENT[name])
    restored = formats.dequantise(first)
    if not restored.any():
        return
    second = formats.quantise(name, restored, **IDEMPOTENT[name])
    assert np.array_equal(second.codes[:, : first.columns], first.codes[:, : first.columns]) or name == "q4_1"
    if not name.startswith("bitnet"):  # the mean magnitude of three values is below their scale
        assert np.allclose(formats.dequantise(second), restored, rtol=2e-3 if name == "q4_1" else 2e-6)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("values", [[0.0], [0.0] * 100, [1.5], [-2.0] * 33, [1e-30] * 64, [[0.25] * 7] * 5])
def test_zeros_constants_and_single_weights(name, values):
    packed = formats.quantise(name, values)
    restored = formats.dequantise(packed)
    assert np.isfinite(restored).all()
    if not np.any(values):
        assert not restored.any()


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("bad", [[], [math.nan], [1.0, math.inf], [1.0, -math.inf], ["a"], "text", None, [[1.0], [1.0, 2.0]],
                                 [1e39], {"a": 1}, 3.0, [1j]])
def test_what_no_format_can_hold_is_refused_at_its_field(name, bad):
    with pytest.raises(InputError) as caught:
        formats.quantise(name, bad)
    assert caught.value.field == "values"


def test_huge_values_are_refused_where_the_scale_cannot_hold_them():
    for name in ("int4", "q4_0", "q4_1", "q5_0", "q8_0", "q4_k", "q6_k", "sparse-2:4"):
        with pytest.raises(InputError, match="float16"):
            formats.quantise(name, [3e38] * 64)
    for name in ("int8", "nf4", "fp8-e4m3", "mxfp4", "bitnet-2bit"):
        assert np.isfinite(formats.dequantise(formats.quantise(name, [3e38, -3e38] * 32))).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [
    np.float32([[3.4028234e38, -3.4028234e38]]), np.float32([[-3.39e38] * 40]), np.float32([[2.99e38, -3e38, 1.0] * 20]),
    np.float32([[1e-45, -1e-45, 3e-45] * 90]), np.float32([[1e-38, 3e-39, -7e-40] * 90]), np.float32([[1e30, 1e-30, 0.0] * 90])],
    ids=("largest", "large", "limit", "least", "subnormal", "far apart"))
@pytest.mark.parametrize(("name", "options"), variants())
def test_the_ends_of_float32_come_back_finite_or_are_refused(name, options, values):
    """A scale rounded up must not make infinity of the largest weight, nor a tiny one a NaN that is cast to a code."""
    values = np.resize(values, (32, 320)) if options.get("metadata") == "cutlass" else values
    try:
        packed = formats.quantise(name, values, **options)
    except InputError as refusal:
        assert refusal.field == "values" and np.abs(values).max() > 1e29
        return
    assert np.isfinite(formats.dequantise(packed)).all() or options.get("overflow") == "nan"
    assert formats.saturated(values, packed) <= values.size


@pytest.mark.parametrize("name", IDS)
def test_bytes_that_do_not_fit_the_shape_are_refused(name):
    packed = formats.quantise(name, weights(8, 64))
    for data in (packed.data[:-1], packed.data + b"\0", b""):
        with pytest.raises(InputError, match="bytes"):
            formats.read(name, data, packed.shape)
    for shape in ((), (0, 4), (-1,), (2.0, 4)):
        with pytest.raises(InputError):
            formats.read(name, packed.data, shape)


def test_unknown_formats_and_options_are_named():
    with pytest.raises(UnknownName) as caught:
        formats.quantise("Q4-K", [1.0])
    assert caught.value.suggestions == ("q4_k",)
    with pytest.raises(InputError, match="group, symmetric"):
        formats.quantise("int4", [1.0], groups=32)
    for options in ({"group": 33}, {"symmetric": 1}, {"nibble_order": "middle"}, {"scale_type": "float64"}, {"levels": True}):
        with pytest.raises(InputError):
            formats.quantise("int4", [1.0], **options)


@pytest.mark.parametrize(("name", "options", "bits"), [
    ("int8", {}, 8 + 32 / 4096), ("int4", {"group": 32}, 4.5), ("int4", {"group": 64}, 4.25), ("int4", {"group": 128}, 4.125),
    ("int4", {"group": 32, "symmetric": False}, 4.625), ("nf4", {}, 4 + 8 / 64 + 32 / 16384 + 32 / (64 * 4096)),
    ("nf4", {"double": False}, 4.5), ("mxfp4", {}, 4.25), ("nvfp4", {}, 4.5 + 32 / (64 * 4096)), ("nvfp4", {"layout": "gguf"}, 4.5),
    ("bitnet-2bit", {"layout": "gguf"}, 2.0625), ("bitnet-5in8", {"layout": "gguf"}, 1.6875),
    ("bitnet-2bit", {}, 2 + 32 / (64 * 4096)), ("q4_0", {}, 4.5), ("q4_1", {}, 5.0), ("q5_0", {}, 5.5), ("q8_0", {}, 8.5),
    ("q4_k", {}, 4.5), ("q6_k", {}, 6.5625), ("sparse-2:4", {}, 9.0), ("sparse-2:4", {"metadata": "cutlass"}, 9.0)])
def test_true_bits_per_weight(name, options, bits):
    assert formats.quantise(name, weights(64, 4096), **options).bits_per_weight == bits


def test_saturation_is_counted_where_it_cuts():
    values = np.zeros((1, 32), np.float32)
    values[0, :3] = 6.9, 1.0, -0.5
    assert formats.saturated(values, formats.quantise("mxfp4", values)) == 0  # 6.9 -> 6: less than half of the last step 2
    values[0, :2] = 7.99, -7.5
    packed = formats.quantise("mxfp4", values)
    assert formats.dequantise(packed).reshape(-1)[:2].tolist() == [6.0, -6.0] and formats.saturated(values, packed) == 2
    both = np.array([[-8.0, 8.0] + [0.0] * 30], np.float32)
    packed = formats.quantise("q4_0", both)  # one end has code 0 = -8, the other stops at 7
    assert formats.saturated(both, packed) == 1 and formats.saturated(both, formats.quantise("int8", both)) == 0
    assert formats.saturated([0.1, 0.1, 0.1, 9.0], formats.quantise("bitnet-2bit", [0.1, 0.1, 0.1, 9.0])) == 1


def test_nf4_levels_are_their_own_nearest_and_ties_go_down():
    levels = np.array(nf4.LEVELS, np.float32)
    assert nf4.nearest(levels).tolist() == list(range(16))
    assert nf4.nearest(nf4.midpoints()).tolist() == list(range(15))
    draw = np.random.default_rng(0).uniform(-1, 1, 200_000).astype(np.float32)
    assert np.array_equal(nf4.nearest(draw), np.abs(draw[:, None].astype(np.float64) - levels).argmin(axis=1))
