"""The quantbench command as people and scripts use it: text, JSON with stable keys, exit statuses, bad input."""

import importlib
import importlib.util
import json
import math
import shlex
import subprocess
import sys
import time
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "quality"))
import made_up_rows

from pycore.cli import quantbench as program
from pycore.cli.commands import module
from pycore.cli.quantbench import asking, engine
from pycore.knobs import TEXT_LIMIT, parse, to_command
from pycore.pack.formats import FORMATS
from pycore.quality import table
from pycore.systems.quantbench_question import FORMAT_NAMES, Query
from pycore.units import significant

PROGRAM = (program.quantbench, "quantbench")

ROOT = Path(__file__).resolve().parents[3]
CODE = "from pycore.cli.quantbench import main; main()"
STABLE = {"codes", "scales", "packed_hex", "dequantised", "bits_per_weight", "sqnr_db"}
VALUES = "0.1,-0.2,0.3,0.4,0.05,-0.75,0.6,1.0"


@pytest.fixture
def measured(monkeypatch):
    """Measured rows that were made up."""
    made_up_rows.use(monkeypatch, made_up_rows.tables(layers=4))
    yield
    made_up_rows.forget()


def outside(*arguments, given=b"", **settings):
    """Run the program as a process of its own."""
    return subprocess.run([sys.executable, "-c", CODE, *arguments], input=given, capture_output=True, cwd=ROOT, check=False,
                          **settings)


# Help -----------------------------------------------------------------------------------------------------------------


def test_help_shows_each_command_in_its_own_words():
    for name, text in program.COMMANDS.items():
        command = importlib.import_module(f"pycore.cli.quantbench.{module(name)}").command
        assert command.help.split("\n")[0] == text


@pytest.mark.parametrize("name", ["", *program.COMMANDS])
def test_help_is_there(run, name):
    status, out, _ = run(*([name] if name else []), "--help")
    assert status == 0 and "Usage: quantbench" in out and ("Examples" in out or name == "info")


def test_help_loads_nothing_heavy():
    code = ("import sys\nfrom pycore.cli.quantbench import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
            "assert not {'rich', 'torch', 'pycore.pack', 'numpy'} & set(sys.modules), sys.modules.keys()")
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_the_documented_examples_run(run, measured):
    """Every example of every help text that needs no file of the reader's and no torch."""
    for name in ("", *program.COMMANDS):
        _, out, _ = run(*([name] if name else []), "--help")
        for line in out.splitlines():
            words = line.strip().removeprefix("quantbench ").split("   ")[0]
            if line.strip().startswith("quantbench ") and not any(mark in line for mark in (
                    "|", ".safetensors", ">", "quantize", "eval", "[OPTIONS]")):
                status, _, err = run(*shlex.split(words))
                assert status == 0, (line, err)


# pack-inspect ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_every_format_gives_the_stable_keys(document, name):
    found = document("pack-inspect", "--format", name, "--values", VALUES)
    assert set(found) >= STABLE and found["format"] == name
    assert len(found["codes"]) == len(found["dequantised"]) == len(found["values"]) == 8 and found["shape"] == [1, 8]
    assert all(type(one) is int for one in found["codes"])
    assert len(bytes.fromhex(found["packed_hex"])) == found["packed_bytes"]
    assert math.isclose(found["bits_per_weight"], found["packed_bytes"])  # eight weights
    assert math.isclose(sum(found["bits"].values()), found["bits_per_weight"])
    given = np.array(found["values"])
    noise = ((given - np.array(found["dequantised"])) ** 2).sum()
    assert math.isclose(found["sqnr_db"], 10 * math.log10((given**2).sum() / noise), rel_tol=1e-9)


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q5_0", "q8_0"])
def test_bytes_are_those_of_the_gguf_package(document, name):
    values = np.random.default_rng(5).normal(size=64).astype(np.float32)
    found = document("pack-inspect", "--format", name, "--values", ",".join(map(repr, map(float, values))))
    kind = gguf.GGMLQuantizationType[name.upper()]
    packed = gguf.quantize(values, kind)
    assert bytes.fromhex(found["packed_hex"]) == packed.tobytes()
    assert found["dequantised"] == gguf.dequantize(packed, kind).reshape(-1).tolist()


def test_codes_are_those_of_ml_dtypes(document):
    values = [0.1, -0.3, 1.75, 448.0, 1e-3, -17.0, 0.0]
    found = document("pack-inspect", "--format", "fp8-e4m3", "--granularity", "none", "--values", ",".join(map(str, values)))
    assert found["codes"] == np.array(values, np.float32).astype(ml_dtypes.float8_e4m3fn).view(np.uint8).tolist()
    assert found["scales"] == [] and found["bits_per_weight"] == 8


def test_int4_by_hand(document):
    """Eight weights of which the largest is 7: the scale is 1, codes are the weights plus 8, two a byte, the first low."""
    found = document("pack-inspect", "--format", "int4", "--values", "7,-7,0,1,-1,2.4,2.6,-3")
    assert found["codes"] == [15, 1, 8, 9, 7, 10, 11, 5] and found["scales"] == [1.0]
    assert found["packed_hex"].startswith("1f98a75b") and found["dequantised"] == [7, -7, 0, 1, -1, 2, 3, -3]
    awq = document("pack-inspect", "--format", "int4", "--nibble-order", "high-first", "--values", "7,-7,0,1,-1,2.4,2.6,-3")
    assert awq["packed_hex"].startswith("f1897ab5") and awq["codes"] == found["codes"]


def test_values_come_from_standard_input_too():
    direct = json.loads(outside("pack-inspect", "--values", VALUES, "--json").stdout)
    piped = json.loads(outside("pack-inspect", "--values", "-", "--json", given=VALUES.encode()).stdout)
    assert piped["packed_hex"] == direct["packed_hex"]
    assert json.loads(outside("pack-inspect", "--values", "-1,2", "--json").stdout)["values"] == [-1, 2]


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "a:b.safetensors"
    made = {"bias": np.ones(3, np.float32), "deep.weight:0": (np.arange(512) / 100).astype(np.float16).reshape(16, 32),
            "whole": np.arange(12, dtype=np.int64).reshape(3, 4)}
    save_file(made, path)
    return path, made


def test_a_tensor_of_a_file(document, run, model_file):
    path, made = model_file
    for words in (["--tensor", f"{path}:deep.weight:0"], ["--file", path, "--tensor", "deep.weight:0"]):
        found = document("pack-inspect", "--format", "q8_0", "--rows", 2, "--first-row", 3, *words)
        assert found["values"] == made["deep.weight:0"][3:5].reshape(-1).astype(float).tolist() and found["shape"] == [2, 32]
    assert document("pack-inspect", "--tensor", f"{path}:whole")["values"] == list(range(12))
    assert document("pack-inspect", "--tensor", path)["shape"][1] in (4, 32)  # the first matrix
    status, _, err = run("pack-inspect", "--tensor", f"{path}:deep.weight")
    assert status == 2 and "deep.weight:0" in err


def test_a_file_of_gigabytes_is_read_by_slice(tmp_path):
    """Three gigabytes that hold no block on the disk; the process may hold 400 MB."""
    path, rows = tmp_path / "huge.safetensors", 196_608
    header = json.dumps({"w": {"dtype": "F32", "shape": [rows, 4096], "data_offsets": [0, rows * 16_384]}}).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + rows * 16_384)
    # the most that this very program held: getrusage would count what its parent held when it was forked
    code = ("import re, resource\nfrom pathlib import Path\nfrom pycore.cli.quantbench import main\ntry:\n    main()\n"
            "finally:\n    status = Path('/proc/self/status')\n"
            "    peak = (int(re.search(r'VmHWM:\\s*(\\d+)', status.read_text())[1]) if status.exists()\n"
            "            else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
            "    assert 10_000 < peak < 400_000, peak")
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, "pack-inspect", "--tensor", f"{path}:w", "--first-row", "150000",
                           "--rows", "1", "--json"], capture_output=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["shape"] == [1, 4096] and time.monotonic() - began < 60


@pytest.mark.parametrize("content", [b"", b"\x01", b"\xff" * 64, b"\x08\0\0\0\0\0\0\0notjson!", b"\x02\0\0\0\0\0\0\0{}x",
                                     b'\x40\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'.ljust(72)])
def test_hostile_files_are_refused_in_words(run, tmp_path, content):
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(content)
    status, out, err = run("pack-inspect", "--tensor", f"{path}:w")
    assert status == 2 and not out and err.startswith("Error:") and "hostile.safetensors" in err


@pytest.mark.parametrize(("words", "said"), [
    (["--values", "x"], "--values"), (["--values", ""], "at least one number"), (["--values", "nan"], "nan at index 0"),
    (["--values", "1", "--tensor", "x:y"], "not both"), (["--tensor", "no/such.safetensors:w"], "No such file"),
    (["--format", "int3"], "accepted: int8"), (["--format", "int8", "--group", "32"], "int8 has no such option"),
    (["--format", "int4", "--group", "33"], "accepted"), (["--weight", "8192"], "0 to 8,191"), (["--rows", "0"], "--rows"),
    (["--values", "1 2;3"], "same length"), (["--bit", "99999999"], "0 to 34,815"), (["--edits", "1"], "index=value"),
    (["--format", "int4", "--values", "1e38"], "float16"), (["--rotation", "--values", "1 2 3"], "even number"),
    (["--format", "fp8-e4m3", "--granularity", "none", "--values", "nan 1", "--rotation"], "finite")])
def test_bad_input_names_its_option(run, words, said):
    status, out, err = run("pack-inspect", *words)
    assert status == 2 and not out and said in err and err.startswith("Error:")


def test_too_long_an_input_is_refused():
    done = outside("pack-inspect", "--values", "-", given=b"1 " * (TEXT_LIMIT // 2 + 1))
    assert done.returncode == 2 and b"larger than" in done.stderr


def test_hostile_text_is_shown_as_text(run, tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"\x1b[31m[red]<b>": np.ones((2, 4), np.float32)}, path)
    status, out, _ = run("pack-inspect", "--tensor", path)
    assert status == 0 and "\x1b" not in out and "[red]<b>" in out


def test_nan_and_infinity_are_saturated_or_kept_as_the_format_says(document):
    words = ["pack-inspect", "--format", "fp8-e4m3", "--granularity", "none", "--values", "nan,inf,500,-1"]
    saturating, strict = document(*words), document(*words, "--overflow", "nan")
    assert saturating["dequantised"] == [None, 448, 448, -1] and strict["dequantised"] == [None, None, None, -1]
    assert saturating["non_finite"] == 2 and saturating["sqnr_db"] is None and not saturating["lossless"]


def test_nothing_lost_is_told_from_nothing_measured(document):
    same, zero = (document("pack-inspect", "--format", "q8_0", "--values", one) for one in ("127,-3", "0,0"))
    assert same["sqnr_db"] is None and same["lossless"] and zero["sqnr_db"] is None and zero["lossless"]
    assert zero["dequantised"] == [0, 0]


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_the_text_shows_codes_bytes_and_bits(run, name):
    status, out, _ = run("pack-inspect", "--format", name, "--weight", "7", "--bit", "1")
    label = next(one.label for one in FORMATS if one.id == name)
    assert status == 0 and out.startswith(label) and "Registers" in out and "> 7" in out and "Bit 1 is" in out


def test_a_number_is_explained(run):
    status, out, _ = run("pack-inspect", "--explain", "bits per weight")
    assert status == 0 and "8 × stored_bytes ÷ weights" in out and "pycore/quality/inspection.py:" in out
    assert run("pack-inspect", "--explain", "bitz")[0] == 2


# pareto, sensitivity, plan --------------------------------------------------------------------------------------------


def test_pareto_on_weights_and_as_measured(document, run, measured):
    found = document("pareto", "--values", VALUES)
    assert found["weights"]["columns"] == 8 and {one["format"] for one in found["points"]} == set(FORMAT_NAMES)
    assert [one["configuration"] for one in found["measured"]][0] == "fp32" and found["measured"][0]["kl_divergence"] is None
    assert next(one for one in found["measured"] if one["configuration"] == "q8_0")["below_the_reference"]
    only = document("pareto", "--frontier", "--preset", "heavy-tailed")
    assert all(one["dominated_by"] is None for one in only["points"] + only["measured"])
    status, out, _ = run("pareto", "--measured")
    assert status == 0 and "Made up" in out and "noise" in out and "INT8, asymmetric" not in out
    assert document("pareto", "--measured")["points"] == []


def test_quality_size_and_speed_are_in_one_table(run):
    """Of the rows that are shipped: every figure of a row on its line, and no speed where none was measured."""
    for model in table.models():
        status, out, _ = run("pareto", "--measured", "--model", model.name)
        assert status == 0 and all(word in out for word in ("bits per weight", "perplexity", "KL, nats", "same next token", "tokens/s"))
        for one in model.configurations:
            speed = "-" if one.decode_tokens_per_s is None else significant(one.decode_tokens_per_s, 3)
            figures = (significant(one.bits_per_weight, 4), f"{one.size_bytes / 1e6:,.1f}", significant(one.perplexity.value, 4), speed)
            assert any(line.strip().startswith(one.label[:20]) and set(figures) <= set(line.split()) for line in out.splitlines()), figures
        assert ("would be noise" in out) == any(one.decode_tokens_per_s is None for one in model.configurations)


def test_formats_that_refuse_the_weights_say_why(document, run):
    found = document("pareto", "--values", "1e38,1")
    refused = {one["format"]: one["fault"] for one in found["points"]}
    assert "float16" in refused["q4_0"] and refused["int8"] is None
    assert run("pareto", "--values", "1e38,1")[0] == 0


def test_sensitivity(document, run, measured):
    found = document("sensitivity", "--configuration", "q6_k")
    assert len(found["rows"]) == 28 and found["configuration"] == "q6_k" and len(found["verdict"]["mean_kl"]) == 7
    for measure in ("kl", "weight", "output"):
        status, out, _ = run("sensitivity", "--measure", measure)
        assert status == 0 and "hold" in out and "down" in out
    status, _, err = run("sensitivity", "--configuration", "q6")
    assert status == 2 and "q6_k" in err


def test_plan(document, run, measured):
    found = document("plan", "--budget", "5")
    assert found["fits"] and found["bits_per_weight"] <= 5 and len(found["plan"]) == 28
    assert found["predicted_kl_divergence"] < found["best_single_format"]["predicted_kl_divergence"]
    assert math.isclose(found["predicted_kl_divergence"], math.fsum(one["kl_divergence"] for one in found["plan"]))
    status, out, _ = run("plan", "--budget", "5", "--formats", "q4_k,q8_0", "--llama-cpp")
    assert status == 0 and out.startswith("llama-quantize --tensor-type") and out.count("\n") == 1
    status, out, _ = run("plan", "--formats", "int4-g64", "--recipe")
    assert status == 0 and "group_size: 64" in out
    assert run("plan", "--formats", "nf4", "--recipe")[0] == 2
    status, out, _ = run("plan", "--choices", "down=q6_k", "--budget", "6")
    assert status == 0 and "q6_k*" in out and "fixed by hand" in out
    status, out, _ = run("plan", "--explain", "predicted loss")
    assert status == 0 and "assum" in out


def test_a_plan_that_does_not_fit_ends_with_1(run, measured):
    status, out, _ = run("plan", "--budget", "2")
    assert status == 1 and out.startswith("Does not fit")
    status, out, _ = run("plan", "--budget-mb", "1", "--json")
    assert status == 1 and json.loads(out)["fits"] is False


def test_without_measured_rows_it_is_said(run, document, monkeypatch):
    monkeypatch.setattr("pycore.quality.table.models", lambda: ())
    for command in ("sensitivity", "plan"):
        status, _, err = run(command)
        assert status == 2 and "not here" in err
    assert document("pareto", "--values", "1")["measured"] == [] and run("ask", "--values", "1")[0] == 0


# ask and info ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [{}, {"format": "nf4", "group": "128", "weight": 70, "bit": 9},
                                   {"values": "1,2,3\n4,5,-6", "format": "fp8-e5m2", "granularity": "tensor"},
                                   {"act_order": True, "bug": True, "step": 7, "bits": 3, "grid_group": 16},
                                   {"preset": "outlier-channel", "rotation": True, "edits": "17=0.5, 40=-1"},
                                   {"budget": 6.0, "choices": "down=q6_k", "formats": "q4_k,q8_0"}])
def test_the_command_that_a_page_shows_asks_the_same_question(document, measured, query):
    asked = parse(Query, query)
    words = shlex.split(to_command(asked, "quantbench ask"))[1:]
    found = document(*words)
    assert found["query"] == {name: value for name, value in query.items()} and set(found) >= STABLE
    assert found["gptq"]["done"] == min(asked.step, len(found["gptq"]["order"])) and found["plan"]["fits"]
    assert {one["method"] for one in found["methods"]} >= {"plain", "rotation", "smoothquant", "awq", "gptq"}


def test_ask_in_text_has_every_part(run, measured):
    status, out, _ = run("ask")
    assert status == 0
    for part in ("Registers", "Methods", f"GPTQ on 16 x 64 weights, after {Query().step} columns", "Made up, measured", "Plan",
                 "llama.cpp"):
        assert part in out
    assert run("ask", "--explain", "compression")[0] == 0


def test_info_lists_everything(document, run):
    found = document("info")
    assert [one["format"] for one in found["formats"]] == list(FORMAT_NAMES) and set(found["presets"]) >= {"normal"}
    status, out, _ = run("info")
    assert status == 0 and all(name in out for name in FORMAT_NAMES)


# What is not installed ------------------------------------------------------------------------------------------------


def without(monkeypatch, *names):
    """As if these packages were not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name.split(".")[0] in names else find(name, *rest))


@pytest.mark.parametrize("words", [["quantize", "smollm2", "--out", "x"], ["eval", "smollm2"]])
def test_without_torch_the_command_that_installs_it_is_said(run, monkeypatch, words):
    without(monkeypatch, "torch")
    status, _, err = run(*words)
    assert status == 2 and engine.INSTALL in err and "torch is not installed" in err
    assert run("info")[0] == 0


def test_without_numpy_the_command_that_installs_it_is_said(run, measured, monkeypatch):
    without(monkeypatch, "numpy")
    for words in (["pack-inspect", "--values", "1"], ["pareto"], ["ask"]):
        status, _, err = run(*words)
        assert status == 2 and asking.INSTALL in err
    for words in (["plan"], ["sensitivity"], ["pareto", "--measured"]):
        assert run(*words)[0] == 0


@pytest.mark.parametrize(("words", "said"), [
    (["eval", "m", "--stride", "9", "--window", "8"], "--stride"), (["eval", "m", "--format", "q4_0", "--group", "32"], "no such option"),
    (["quantize", "m"], "--out"), (["quantize", "m", "--out", "x", "--format", "int8", "--levels", "16"], "no such option"),
    (["quantize", "m", "--out", "x", "--method", "magic"], "magic"),
    (["eval", "m", "--plan", "q4_0", "--format", "int8"], "--plan"), (["eval", "m", "--method", "gptq"], "--format"),
    (["eval", "m", "--format", "int8", "--against", "n"], "--against")])
def test_the_engine_is_asked_only_what_makes_sense(run, monkeypatch, words, said):
    monkeypatch.setattr(engine, "call", lambda name: pytest.fail("the engine was asked"))
    status, _, err = run(*words)
    assert status == 2 and said in err


def test_nothing_is_overwritten(run, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(engine, "call", lambda name: lambda **given: asked.append(given) or {
        "bits_per_weight": 4.5, "size_bytes": 9, "weight_sqnr_db": 20.0})
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "thing").write_text("kept")
    status, _, err = run("quantize", "m", "--out", tmp_path / "held")
    assert status == 2 and "--force" in err and not asked
    assert run("quantize", "m", "--out", tmp_path / "held", "--force")[0] == 0
    assert run("quantize", "m", "--out", tmp_path / "new", "--format", "int4", "--group", "32")[0] == 0
    assert [one["plan"] for one in asked] == ["int4", "int4:group=32"]


@pytest.mark.parametrize(("words", "plan"), [
    ([], None), (["--format", "nf4"], "nf4"), (["--format", "nf4", "--group", "128", "--double", "no"], "nf4:block=128,double=no"),
    (["--format", "int4", "--group", "32", "--method", "gptq-ordered"], "int4:group=32+gptq-ordered"),
    (["--format", "int8", "--method", "smoothquant", "--activations"], "int8+smoothquant+a8"),
    (["--plan", "int4; down=q6_k"], "int4; down=q6_k")])
def test_the_engine_reads_what_the_options_mean(run, monkeypatch, words, plan):
    from runtime.quantbench.schemes import parse_plan

    asked = []
    monkeypatch.setattr(engine, "call", lambda name: lambda **given: asked.append(given) or {"perplexity": 30.0})
    assert run("eval", "m", *words)[0] == 0 and asked[0]["plan"] == plan
    assert plan is None or parse_plan(plan)
