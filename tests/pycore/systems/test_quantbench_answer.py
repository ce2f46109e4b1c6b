"""quantbench as page and command ask it: weights of every source, bits of every format, methods, GPTQ, and what comes when."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore import cache
from pycore.cache import Needs
from pycore.errors import InputError, SourceError, StudioError
from pycore.knobs import from_url, knobs, parse, to_url
from pycore.pack.formats import FORMATS, dequantise, read
from pycore.quality import columns, draws, frontier, inspection, methods, registers
from pycore.quality.columns import Setting
from pycore.quality.inputs import INPUTS
from pycore.quality.methods import Calibration
from pycore.quality.prepared import Methods
from pycore.quality.weights import PRESETS, drawn, typed
from pycore.systems import quantbench
from pycore.systems.quantbench import Answer, Progress, Query, answer, steps
from pycore.systems.quantbench_question import FORMAT_NAMES, OPTION_FIELDS, options_of

PLAIN = Methods()
# Stored bits a weight of whole blocks, as the formats' own descriptions have them (tensor scales left out).
PUBLISHED = {"q4_0": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q8_0": 8.5, "q4_k": 4.5, "q6_k": 6.5625, "mxfp4": 4.25, "nvfp4": 4.5,
             "sparse-2:4": 9.0}


@pytest.fixture(scope="module")
def default() -> Answer:
    return answer(Query())


# Draws: the same everywhere -------------------------------------------------------------------------------------------


def test_the_generator_is_splitmix64():
    """The first numbers of the published generator seeded with 0."""
    words = draws.hashed((np.arange(3, dtype=np.uint64) + np.uint64(1)) * np.uint64(draws.STEP))
    assert [f"{int(word):016x}" for word in words] == ["e220a8397b1dcdaf", "6e789e6aa1b965f4", "06c45d188009454f"]


def test_normals_are_normal():
    values = np.sort(draws.normals(3, 0, 200_000))
    exact = np.array([statistics.NormalDist().cdf(one) for one in values[::100]])
    assert abs(exact - np.arange(0, 1, 100 / values.size)).max() < 1.63 / math.sqrt(values.size) + 1e-9  # 1 % of chance
    assert (draws.normals(3, 0, 50) == draws.normals(3, 0, 5000)[:50]).all()
    assert (draws.normals(3, 0, 50) != draws.normals(4, 0, 50)).all()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_what_they_say(name):
    values = drawn(name, 1, 256, 256).values
    assert values.dtype == np.float32 and (values == drawn(name, 1, 256, 256).values).all()
    ordinary = np.delete(values, np.arange(8, 256, 64), axis=1) if name == "outlier-channel" else values
    assert abs(ordinary.std() / 0.02 - 1) < 0.03
    kurtosis = (ordinary**4).mean() / (ordinary**2).mean() ** 2
    low, high = {"normal": (2.9, 3.1), "heavy-tailed": (5, 500), "outlier-channel": (2.9, 3.1), "uniform": (1.75, 1.85)}[name]
    assert low < kurtosis < high
    if name == "outlier-channel":
        assert abs(values[:, 8::64].std() / 0.4 - 1) < 0.1


def test_inputs_are_correlated_as_they_say():
    values = INPUTS["correlated"](1, 20_000, 6)
    found = np.corrcoef(values.T)
    assert abs(found - 0.8 ** abs(np.subtract.outer(np.arange(6), np.arange(6)))).max() < 0.03
    assert abs(np.corrcoef(INPUTS["independent"](1, 20_000, 6).T) - np.eye(6)).max() < 0.03
    large = INPUTS["outlier-channels"](1, 5000, 32).std(axis=0)
    assert np.flatnonzero(large > 4).tolist() == [4, 20]


# Weights --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "shape"), [("0.5", (1, 1)), ("1,2 3\t4", (1, 4)), ("1 2\n3 4", (2, 2)), ("1;2;3", (3, 1)),
                                             ("[[1, 2], [3, 4]]", (1, 4)), ("\n1,\n\n2,\n", (2, 1)), ("nan,-inf,1e39", (1, 3))])
def test_numbers_as_people_write_them(text, shape):
    assert typed(text).values.shape == shape


@pytest.mark.parametrize(("fields", "field"), [
    ({"values": "a"}, "values"), ({"values": "1 2\n3"}, "values"), ({"values": "1,,x"}, "values"), ({"values": ";"}, "values"),
    ({"edits": "x"}, "edits"), ({"edits": "8192=1"}, "edits"), ({"edits": "1=x"}, "edits"), ({"edits": "-1=1"}, "edits"),
    ({"rows": 65536, "columns": 65536}, "rows"), ({"file": "/nowhere/x.safetensors"}, "file"), ({"file": "/tmp"}, "file"),
    ({"file": "\0"}, "file"), ({"file": "upload:0123456789abcdef:gone.safetensors"}, "file"),
    ({"values": "nan"}, "values"), ({"values": "inf 1", "format": "q4_k"}, "values"), ({"values": "1e39"}, "values"),
    ({"values": "1e38", "format": "int4"}, "values"), ({"format": "int8", "granularity": "none"}, "granularity"),
    ({"rotation": True, "values": "1 2 3"}, "rotation"), ({"samples": 3, "damping": 0.0}, "damping"),
    ({"grid_group": 7}, "grid_group"), ({"format": "sparse-2:4", "metadata": "cutlass", "rows": 31}, "metadata")])
def test_what_cannot_be_used_is_refused_at_its_field(fields, field):
    with pytest.raises(StudioError) as found:
        answer(Query(**fields))
    assert found.value.field == field and str(found.value)


def test_edits_change_those_weights_alone(default):
    found = answer(Query(edits="17=0.5, 40=-1")).bench.weights.values.reshape(-1)
    before = default.bench.weights.values.reshape(-1)
    assert found[17] == 0.5 and found[40] == -1 and np.flatnonzero(found != before).tolist() == [17, 40]


def test_typed_weights_go_before_a_file_and_a_preset():
    found = answer(Query(values="1,2,3,4", file="/nowhere"))
    assert found.bench.weights.values.tolist() == [[1, 2, 3, 4]] and found.bench.weights.source == "typed"


@pytest.fixture
def model_file(tmp_path):
    """A file as the safetensors package writes it, and its tensors."""
    from safetensors.numpy import save_file

    made = {"layer.bias": np.arange(8, dtype=np.float32), "layer.weight": np.arange(600, dtype=np.float32).reshape(20, 30) / 7,
            "half": np.linspace(-1, 1, 64).astype(np.float16).reshape(2, 32), "whole": np.arange(10, dtype=np.int64),
            "empty": np.zeros((0, 4), np.float32)}
    save_file(made, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors", made


def test_rows_of_a_tensor(model_file):
    path, made = model_file
    found = answer(Query(file=str(path), tensor="layer.weight", first_row=3, rows=5)).bench.weights
    assert (found.values == made["layer.weight"][3:8]).all() and found.source == "file" and not found.remarks
    found = answer(Query(file=str(path), tensor="layer.weight", first_row=18, rows=5)).bench.weights
    assert found.rows == 2 and "2 rows instead of 5" in found.remarks[0]
    assert {one.name for one in found.tensors} == {"layer.bias", "layer.weight", "half", "whole"}
    assert (answer(Query(file=str(path), tensor="half")).bench.weights.values == made["half"]).all()
    assert answer(Query(file=str(path))).bench.weights.tensor.name in ("half", "layer.weight")  # the first matrix


@pytest.mark.parametrize(("fields", "field"), [({"tensor": "layer.wieght"}, "tensor"), ({"tensor": "empty"}, "rows"),
                                               ({"tensor": "half", "first_row": 2}, "first_row")])
def test_a_wrong_place_in_a_file_is_said(model_file, fields, field):
    with pytest.raises(InputError) as found:
        answer(Query(file=str(model_file[0]), **fields))
    assert found.value.field == field
    if field == "tensor":
        assert "layer.weight" in found.value.suggestions


@pytest.mark.parametrize("cut", [0, 5, 40, -1])
def test_a_truncated_file_is_refused(model_file, cut):
    path, _ = model_file
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(SourceError) as found:
        answer(Query(file=str(path)))
    assert found.value.field == "file"


def test_a_file_that_changes_is_read_anew(model_file):
    from safetensors.numpy import save_file

    path, _ = model_file
    answer(Query(file=str(path)))
    save_file({"other": np.ones((4, 4), np.float32)}, path)
    assert answer(Query(file=str(path))).bench.weights.tensor.name == "other"


def test_of_a_file_of_gigabytes_only_the_rows_asked_for_are_read():
    """A file chosen on the page, kept open: what is read of it is counted."""
    import json

    rows, width = 500_000, 4096
    header = json.dumps({"w": {"dtype": "F16", "shape": [rows, width], "data_offsets": [0, 2 * rows * width]}}).encode()
    start, touched = 8 + len(header), []

    def reader(first, count):
        touched.append(count)
        head = len(header).to_bytes(8, "little") + header
        return head[first:first + count] if first < start else b"\x00\x3c" * (count // 2)

    reference = cache.keep_open("huge.safetensors", start + 2 * rows * width, reader)
    found = answer(Query(file=reference, first_row=400_000, rows=4)).bench.weights
    assert (found.values == 1).all() and found.values.shape == (4, width)
    assert sum(touched) < 100_000 and 2 * rows * width > 4e9


# Bits -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_stored_bits_add_up(name):
    found = inspection.inspect(drawn("normal", 1, 32, 256), name, (), PLAIN)
    assert math.isclose(math.fsum(share.bits for share in found.shares), 8 * len(found.packed.data))
    assert math.isclose(found.bits_per_weight.value, 8 * len(found.packed.data) / 8192)
    assert math.isclose(found.compression.value, 16 / found.bits_per_weight.value)
    if name in PUBLISHED:
        tensor_scale = 32 / 8192 if name == "nvfp4" else 0
        assert math.isclose(found.bits_per_weight.value, PUBLISHED[name] + tensor_scale)


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_bytes_stand_for_what_is_shown(name):
    """The bytes alone, read again, give the restored weights."""
    found = inspection.inspect(drawn("heavy-tailed", 2, 32, 256), name, (), PLAIN)
    given = {key: value for key, value in found.packed.options if key in dict(next(
        one for one in FORMATS if one.id == name).options)}
    again = read(name, found.packed.data, found.packed.shape, **given)
    assert (dequantise(again) == found.restored).all()


@pytest.mark.parametrize("name", FORMAT_NAMES)
@pytest.mark.parametrize("index", [0, 40, 8191])
def test_registers_hold_the_bytes_and_name_the_weights(name, index):
    found = inspection.inspect(drawn("normal", 1, 32, 256), name, (), PLAIN)
    view = registers.view(found.packed, index)
    assert view.first <= index < view.last
    for register in view.registers:
        part = found.packed.data[register.byte:register.byte + 4]
        assert register.word.to_bytes(len(part), "little") == part and len(register.bits) == 8 * len(part)
        assert sum(bit.value << place for place, bit in enumerate(register.bits)) == register.word
        assert int(register.hexadecimal, 16) == register.word
    shown = {(register.byte * 8 + place): bit for register in view.registers for place, bit in enumerate(register.bits)}
    for weight, parts in zip(range(view.first, view.last), view.fields, strict=True):
        for part in parts:
            assert all(weight in shown[bit].weights and shown[bit].role == part.role for bit in part.bits)
            assert sum(shown[bit].value << place for place, bit in enumerate(part.bits)) == part.raw
            owner = registers.owner(found.packed, part.bits[0])
            assert owner.role == part.role and (weight in owner.weights or len(owner.weights) > 4000)  # a tensor's scale: the first are named


def test_of_four_weights_two_survive():
    found = inspection.inspect(typed("0.1,-0.9,0.5,0.2"), "sparse-2:4", (), PLAIN)
    view = registers.view(found.packed, 0)
    assert [any(part.role == "code" for part in parts) for parts in view.fields] == [False, True, True, False]
    assert view.fields[0][-1].role == "metadata" and view.fields[0][-1].raw == 1 | 2 << 2


@pytest.mark.parametrize(("values", "lossless", "measured"), [
    ("0 0 0 0", True, False), ("0.5", True, True), (",".join(["-3"] * 70), True, True), ("1,0.3", False, True)])
def test_flat_weights(values, lossless, measured):
    found = inspection.inspect(typed(values), "fp8-e4m3", (), PLAIN)
    assert found.lossless is lossless and (found.sqnr is not None) is measured
    assert found.error is not None and np.isfinite(found.restored).all()


def test_nan_and_infinity_where_the_format_has_codes_for_them():
    weights = typed("nan, inf, -inf, 500, 1")
    saturating = inspection.inspect(weights, "fp8-e4m3", (("granularity", "none"),), PLAIN)
    assert saturating.non_finite == 3 and saturating.error is None and saturating.sqnr is None
    assert np.isnan(saturating.restored[0, 0]) and saturating.restored[0, 3] == 448
    strict = inspection.inspect(weights, "fp8-e4m3", (("granularity", "none"), ("overflow", "nan")), PLAIN)
    assert np.isnan(strict.restored[0, 3]) and strict.restored[0, 4] == 1
    found = answer(Query(values="nan, inf, 1", format="fp8-e4m3", granularity="none")).bench
    assert found.methods == () and found.walk is None and not found.pending
    assert {one.fault != "" for one in found.points if one.configuration.format == "int4"} == {True}


def test_the_textbook_holds_for_uniform_weights():
    """6.02 dB a bit: uniform weights under one scale, the one case that it is exact for."""
    found = inspection.inspect(drawn("uniform", 1, 256, 256), "int8", (("granularity", "tensor"),), PLAIN)
    assert abs(found.sqnr.value - 20 * math.log10(255)) < 0.1
    assert abs(found.uniform_sqnr.value - found.sqnr.value) < 0.1 and abs(found.textbook_sqnr.value - 48.16) < 0.01


# Every format on the same weights -------------------------------------------------------------------------------------


def test_formats_are_measured_and_the_beaten_are_marked(default):
    points = default.bench.points
    assert len({one.configuration.id for one in points}) == len(points) >= 30
    assert {one.configuration.format for one in points} == set(FORMAT_NAMES)
    for one in points:
        beats = [other for other in points if other.bits_per_weight <= one.bits_per_weight and other.sqnr_db >= one.sqnr_db
                 and (other.bits_per_weight, other.sqnr_db) != (one.bits_per_weight, one.sqnr_db)]
        assert bool(one.dominated_by) is bool(beats), one
        assert not beats or one.dominated_by in {other.configuration.id for other in beats}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_point_has_the_figures_of_the_inspection(preset):
    weights = drawn(preset, 3, 32, 256)
    for one in frontier.points(weights):
        found = inspection.inspect(weights, one.configuration.format, one.configuration.options, PLAIN)
        assert (one.bits_per_weight, one.sqnr_db, one.max_error) == (
            found.packed.bits_per_weight, found.error.sqnr_db, found.error.max_error)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=9))
def test_who_is_dominated_follows_from_the_definition(pairs):
    named = [(str(place), cost, gain) for place, (cost, gain) in enumerate(pairs)]
    found = frontier.dominated(named)
    for name, cost, gain in named:
        assert (name in found) is any(c <= cost and g >= gain and (c, g) != (cost, gain) for _, c, g in named)
        assert found.get(name) not in found, "the one named is not dominated itself"


def test_ternary_and_sparse_are_never_better_than_eight_bits(default):
    """What the peer's toy showed: ternary and 2:4 ahead of 16 bits."""
    sqnr = {one.configuration.id: one.sqnr_db for one in default.bench.points}
    assert max(sqnr["bitnet-2bit"], sqnr["sparse-2:4"]) < sqnr["int4-g128"] < sqnr["int8"]
    bits = {one.configuration.id: one.bits_per_weight for one in default.bench.points}
    assert bits["sparse-2:4"] == 9.0 < 16


# Methods --------------------------------------------------------------------------------------------------------------


def compared(preset, format_id="int4", options=(), prepare=PLAIN, calibration=Calibration()):  # noqa: B008
    found = methods.compared(drawn(preset, 1, 32, 256), format_id, options, prepare, calibration)
    return {one.name: one for one in found}


def test_methods_buy_what_they_are_for():
    outliers = compared("outlier-channel")
    assert outliers["rotation"].gain_db > 6 and outliers["smoothquant"].gain_db > 6 and outliers["awq"].gain_db > 3
    assert compared("uniform")["rotation"].gain_db < -3  # rotation makes flat weights normal: worse, and it is shown
    assert compared("normal")["gptq"].gain_db > 2
    assert compared("normal", "nf4")["gptq"].note and math.isnan(compared("normal", "nf4")["gptq"].output_sqnr_db)


def test_independent_inputs_leave_gptq_nothing_to_gain():
    prepare = Methods(inputs="independent", samples=4096)
    assert abs(compared("normal", prepare=prepare)["gptq"].gain_db) < 0.6


def test_the_bug_is_worse_than_gptq():
    right, wrong = compared("normal"), compared("normal", calibration=Calibration(bug=True))
    assert wrong["gptq"].output_sqnr_db < right["gptq"].output_sqnr_db and "bug" in wrong["gptq"].label


def test_switches_say_what_the_registers_show():
    found = answer(Query(preset="outlier-channel", rotation=True, awq=True)).bench
    plain = answer(Query(preset="outlier-channel")).bench
    assert found.inspection.sqnr.value > plain.inspection.sqnr.value + 6
    assert found.methods[-1].name == "chosen" and found.methods[-1].label == "AWQ, then rotation"
    assert found.inspection.notes and plain.methods[-1].name == "gptq"


# GPTQ step by step ----------------------------------------------------------------------------------------------------


def test_each_step_costs_what_the_theory_says():
    """With the Cholesky factor a step adds the squared error of its column over its diagonal (Frantar 2022), no more."""
    weights, setting = drawn("normal", 1, 16, 64), Setting()
    steps_taken, end = columns.run(weights, setting, Calibration())
    walk = columns.walk(weights, setting, Calibration(), 64)
    added = np.cumsum([float((one.error**2).sum()) for one in steps_taken])
    np.testing.assert_allclose(walk.partial[1:], added, rtol=1e-8)
    assert walk.partial[0] == 0 and math.isclose(walk.partial[-1], end.objective, rel_tol=1e-9)


@pytest.mark.parametrize("calibration", [Calibration(), Calibration(act_order=True), Calibration(bug=True)])
def test_a_walk_is_the_same_whatever_step_is_looked_at(calibration):
    weights, setting = drawn("normal", 1, 16, 64), Setting(bits=3)
    taken = [columns.walk(weights, setting, calibration, step) for step in range(66)]
    assert taken[0].column == -1 and (taken[0].working == taken[0].weights).all() and not taken[0].factor.any()
    assert sorted(taken[0].order) == list(range(64)) and taken[65].done == 64
    for before, now in zip(taken, taken[1:65], strict=False):
        assert now.column == now.order[now.done - 1]
        done = list(now.order[:now.done])
        assert (now.working[:, done] == taken[64].working[:, done]).all()
        np.testing.assert_array_equal(now.working, before.working + now.pushed)
        later = list(now.order[now.done:])
        np.testing.assert_allclose(now.pushed[:, later], -np.outer(now.error, now.factor[later]), rtol=1e-9, atol=1e-15)
    if calibration.act_order:
        diagonal = np.diagonal(columns.hessian_of(weights, setting))
        assert (np.diff(diagonal[list(taken[0].order)]) <= 0).all()


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_variants_end_in_their_order(bits):
    found = {one.name: one for one in columns.variants(drawn("normal", 1, 16, 64), Setting(bits=bits))}
    assert found["nearest"].ratio == 1
    assert found["gptq"].objective < found["bug"].objective and found["gptq"].ratio < 1
    assert found["gptq-act-order"].objective < found["bug-act-order"].objective


# The question and what comes when -------------------------------------------------------------------------------------


def test_every_question_survives_its_address():
    full = Query(**{knob.name: {"integer": 5, "number": 0.5, "flag": True}.get(knob.kind, knob.choices[-1] if knob.choices else
                                                                            "x = 1, ä") for knob in knobs(Query)})
    assert from_url(Query, to_url(full)) == full and to_url(Query()) == ""


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.id)
def test_every_option_of_every_format_can_be_asked_for(one):
    for name, values in one.options:
        for value in values:
            field = "group" if name == "block" else name
            text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
            options, unused = options_of(parse(Query, {"format": one.id, field: text}))
            assert options == ((name, value),) and unused == () and type(options[0][1]) is type(value)


def test_options_of_another_format_are_left_aside_and_said():
    found = answer(Query(format="q4_0", group="32", levels="16")).bench
    assert found.unused == ("group", "levels") and set(found.unused) <= set(OPTION_FIELDS)


def test_the_default_question_is_first_answered_without_numpy():
    found = list(steps(Query()))
    assert isinstance(found[0], Answer) and found[0].bench is None
    assert found[-1].bench is not None and not found[-1].bench.pending and found[-1].bench.walk is not None


def test_without_numpy_the_rest_is_there_before_it_comes(monkeypatch):
    absent = ["numpy"]
    monkeypatch.setattr(cache, "absent", lambda packages: tuple(absent))
    taken = steps(Query(format="nf4"))
    first, needs = next(taken), next(taken)
    assert first.bench is None and first.query.format == "nf4" and needs == Needs(packages=("numpy",))
    absent.clear()
    *_, last = taken
    assert last.bench.inspection.format == "nf4"


def test_importing_and_asking_without_numpy_loads_none():
    import subprocess
    import sys

    code = ("import sys\nfrom pycore.systems.quantbench import Query, steps\nnext(steps(Query()))\n"
            "assert 'numpy' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_takes_long_comes_later_once():
    query = Query(seed=77, format="nf4")
    found = [one for one in steps(query) if isinstance(one, Answer)]
    assert [one.bench.pending for one in found] == [True, False] and found[0].bench.methods == ()
    assert found[0].bench.points is found[1].bench.points
    again = [one for one in steps(replace(query, weight=9)) if not isinstance(one, Progress)]
    assert len(again) == 1 and not again[0].bench.pending
    assert again[0].bench.inspection is found[1].bench.inspection and again[0].bench.methods is found[1].bench.methods


def test_every_term_is_explained(default):
    assert {one.name for one in default.terms} >= {"Bits per weight", "Compression", "SQNR", "Crest factor"}
    for one in default.terms:
        assert one.text and (one.formula or one.source), one.name


def test_a_weight_or_bit_beyond_the_last_is_no_fault(default):
    found = answer(Query(weight=10**6, bit=10**9)).bench
    assert found.view.last == 8192 and found.owner is None
    assert answer(Query(bit=3)).bench.owner.role == "code"
    assert quantbench.completions("models") == default.models
