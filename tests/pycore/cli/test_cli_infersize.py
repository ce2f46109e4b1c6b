"""The infersize command as people and scripts use it: text, JSON, exit statuses, bad input, the installed script."""

import csv
import importlib
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pycore.cli import infersize as program
from pycore.knobs import from_url, parse
from pycore.systems.infersize import Query, answer
from pycore.units import GIB

PROGRAM = (program.infersize, "infersize")

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(sys.executable).with_name("infersize")
FITS = ["--model", "qwen2.5-7b", "--gpu", "l40s"]
TOO_LARGE = ["--model", "llama-3.3-70b", "--quant", "awq", "--gpu", "rtx 4090"]
CONFIG = {"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
          "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "max_position_embeddings": 32768,
          "tie_word_embeddings": True, "torch_dtype": "bfloat16"}


@pytest.fixture
def document(run):
    """Run with --json: (exit status, the object)."""
    def call(*arguments):
        status, out, err = run(*arguments, "--json")
        assert out, err
        return status, json.loads(out)

    return call


def test_help_shows_each_command_in_its_own_words():
    for name, text in program.COMMANDS.items():
        command = importlib.import_module(f"pycore.cli.infersize.{name}").command
        assert command.help.split("\n")[0] == text


@pytest.mark.parametrize("name", ["", *program.COMMANDS])
def test_help_has_examples_and_exit_statuses(run, name):
    status, out, _ = run(*filter(None, (name, "--help")))
    assert status == 0
    assert "Examples:" in out
    assert name in ("spec", "cost") or "Exit status:" in out


def test_help_loads_neither_the_core_nor_rich():
    code = ("import sys\nfrom pycore.cli.infersize import main\n"
            "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
            "print([name for name in ('pycore.systems', 'pycore.catalog', 'rich', 'csv') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


SCHEMA = {
    "per_gpu": ("weights_bytes", "kv_bytes", "kv_bytes_per_token", "total_bytes", "usable_bytes"),
    "capacity": ("kv_tokens", "max_context", "max_sequences"),
    "speed": ("ttft_ms", "tpot_ms", "tokens_per_s_user", "tokens_per_s_total"),
    "cost": ("usd_per_million_tokens",),
}


def test_stable_json_of_plan(document):
    status, found = document("plan", "--model", "qwen2.5-7b", "--quant", "fp16", "--kv-dtype", "fp8",
                             "--context", "8192", "--sequences", "4", "--gpu", "l40s", "--count", "2", "--tp", "2",
                             "--engine", "vllm")
    assert status == 0 and found["fits"] is True
    for part, names in SCHEMA.items():
        for name in names:
            assert isinstance(found[part][name], int | float), (part, name)
            if f"{name}_low" in found[part]:
                assert found[part][f"{name}_low"] <= found[part][name] <= found[part][f"{name}_high"]
    assert all(isinstance(found["per_gpu"][name], int) for name in SCHEMA["per_gpu"])
    assert found["per_gpu"]["kv_bytes_per_token"] == 28 * 2 * 2 * 128, "28 layers, 2 of 4 KV heads, K and V, 1 byte"
    for one in found["terms"]:
        assert {"name", "value", "unit", "formula", "basis", "source"} <= set(one)
    assert {"Weights", "KV pages, full attention"} <= {one["name"] for one in found["terms"]}


def test_json_says_what_the_core_says(document):
    _, found = document("plan", *FITS, "--sequences", "4")
    core = answer(Query(sequences=4, gpu="l40s"), with_matrix=False)
    assert found["per_gpu"]["total_bytes"] == core.memory.total.value
    assert found["speed"]["tpot_ms"] == pytest.approx(1000 * core.speed.tpot_s.value)
    assert found["cost"]["usd_per_million_tokens"] == core.cost.usd_per_million_blended.value
    assert found["capacity"]["kv_tokens"] == core.capacity.kv_tokens.value


def test_json_url_and_command_ask_the_same_question_again(document):
    _, found = document("plan", *FITS, "--context", "32k", "--draft-model", "qwen2.5-0.5b", "--acceptance", "0.8")
    asked = parse(Query, found["query"])
    assert from_url(Query, found["url"]) == asked
    assert document(*shlex.split(found["command"])[1:])[1] == found


def test_url_alone(run):
    status, out, _ = run("plan", *FITS, "--context", "32k", "--url")
    assert (status, out) == (0, "?context=32768\n")


def test_text_is_verdict_first_and_its_ledger_adds_up(run):
    status, out, _ = run("plan", *FITS)
    assert status == 0
    assert re.match(r"Fits on 1 × NVIDIA L40S: [\d.]+ tokens/s per user, \$[\d.]+ per 1M tokens\n", out)
    ledger = out.split("Memory per GPU")[1].split("KV cache:")[0]
    rows = re.findall(r"^  (\S.*?) {2,}([\d.,]+) +([\d.,]+)", ledger, re.M)
    names = [name for name, _, _ in rows]
    total = names.index("Total")
    assert sum(float(gib) for _, gib, _ in rows[:total]) == pytest.approx(float(rows[total][1]), abs=0.0006 * total)
    for _, gib, gb in rows:
        assert float(gib) * GIB / 1e9 == pytest.approx(float(gb), abs=0.0011)
    for heading in ("Capacity", "Speed (predicted)", "Cost", "Launch with vllm"):
        assert f"\n{heading}\n" in out


def test_what_does_not_fit_comes_with_commands_that_fit(run, document):
    status, out, _ = run("plan", *TOO_LARGE)
    assert status == 1
    verdict = out.splitlines()[0]
    assert re.fullmatch(r"Does not fit on 1 × NVIDIA RTX 4090: needs .* per GPU, vllm may take .* of 23.99 GiB", verdict)
    commands = re.findall(r"^ +(infersize plan .*)$", out, re.M)
    assert commands
    for command in commands:
        assert run(*shlex.split(command)[1:])[0] == 0, command
    status, found = document("plan", *TOO_LARGE)
    assert status == 1 and found["fits"] is False
    assert [remedy["command"] for remedy in found["remedies"]] == commands


def test_the_verdict_does_not_call_room_a_lack_of_it(run):
    """22.36 GiB against 23.99 usable is not what decides: the engine's budget is. Nor is room, where it won't start."""
    _, out, _ = run("plan", "--gpu", "rtx 4090")
    need, take = map(float, re.search(r"needs ([\d.]+) GiB per GPU, vllm may take ([\d.]+) GiB", out).groups())
    assert need > take
    _, out, _ = run("plan", "--memory-fraction", "1")
    assert out.startswith("Does not fit on 1 × NVIDIA L40S: vllm does not start with that memory fraction\n")
    assert "refuses to start: 1 of the device is more than is free on it." in out


@pytest.mark.parametrize("command", ["spec", "cost"])
def test_other_answers_also_say_that_it_does_not_fit(run, command):
    status, out, _ = run(command, *TOO_LARGE, "--draft-model", "llama-3.2-1b")
    assert status == 1 and out.startswith("Does not fit")


def test_explain_prints_the_chain(run):
    status, out, _ = run("plan", *FITS, "--explain", "kv pages, full attention")
    assert status == 0
    for words in ("KV pages, full attention = 7 GiB", "formula: unit_bytes × units_per_sequence × sequences",
                  "with values: ", "basis: derived; source: ", "code: pycore/vram/reservation.py:"):
        assert words in out
    status, out, err = run("plan", *FITS, "--explain", "tme per outptu token")
    assert status == 2 and out == "" and "Time per output token" in err


@pytest.mark.parametrize(("short", "name"), [("tpot", "Time per output token"), ("TTFT", "Time to first token"),
                                              ("mfu", "Model FLOP utilisation"), ("mbu", "Memory bandwidth util")])
def test_abbreviations_are_explained(run, short, name):
    status, out, _ = run("plan", *FITS, "--explain", short)
    assert status == 0 and out.startswith(name)


def test_explained_code_lines_exist(document):
    _, found = document("plan", *FITS)
    for one in found["terms"]:
        if one["line"]:
            path, _, number = one["line"].partition(":")
            assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) >= int(number or 1)


def test_targets_are_judged(document, run):
    _, found = document("plan", *FITS, "--target-ttft-ms", "100000", "--target-tpot-ms", "0.001")
    assert [(one["name"], one["met"], one["sure"]) for one in found["targets"]] == [
        ("TTFT", True, True), ("TPOT", False, False)]
    assert "TPOT target 1 µs: missed" in run("plan", *FITS, "--target-tpot-ms", "0.001")[1]


def test_config_from_file_and_standard_input(document, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    _, found = document("plan", "--config", str(file), "--gpu", "t4", "--quant", "fp16")
    assert found["per_gpu"]["kv_bytes_per_token"] == 24 * 2 * 2 * 64 * 2
    done = subprocess.run([SCRIPT, "plan", "--config", "-", "--gpu", "t4", "--quant", "fp16", "--json"],
                          input=json.dumps(CONFIG), capture_output=True, text=True)
    assert json.loads(done.stdout)["per_gpu"] == found["per_gpu"]


def test_engine_log_is_compared(run, tmp_path):
    log = tmp_path / "vllm.log"
    log.write_text("INFO gpu_model_runner.py: Model loading took 14.2488 GiB memory and 3.2 seconds\n"
                   "INFO kv_cache_utils.py: GPU KV cache size: 488,976 tokens\n")
    status, out, _ = run("plan", *FITS, "--engine-log", str(log))
    assert status == 0
    section = out.split("Predicted against the engine's log")[1].split("\n\n")[0]
    assert "488,976 tokens" in section and "+0.00 %" in section


def test_a_log_of_another_engine_is_not_compared_in_silence(run, tmp_path):
    path = tmp_path / "server.log"
    path.write_text("load_tensors:        CUDA0 model buffer size =  4403.49 MiB\n", encoding="utf-8")
    assert "The log is llama.cpp's, the plan is for vLLM" in run("plan", *FITS, "--engine-log", str(path))[1]
    same = ("--model", "llama-3.1-8b", "--quant", "q4_k_m", "--engine", "llama.cpp", "--engine-log", str(path))
    assert "The log is" not in run("plan", *same)[1]


def test_matrix_filters_sorts_and_formats(document, run):
    status, found = document("compare", "--quant", "fp16", "--only-fits", "--sort", "usd_per_million", "--top", "5")
    assert status == 0
    prices = [row["usd_per_million"] for row in found["rows"]]
    assert len(prices) == 5 and prices == sorted(prices)
    assert {row["format_name"] for row in found["rows"]} == {"FP16"} and all(row["fits"] for row in found["rows"])
    assert found["fitting"] >= 5
    status, out, _ = run("compare", "--quant", "fp16", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert sum(row["fits"] == "True" for row in rows) == found["fitting"]
    status, out, _ = run("compare", "--quant", "fp16", "--top", "2")
    assert re.search(r"2 of \d+ rows shown \(--top \d+ shows all\); \d+ combinations fit", out)


def test_matrix_row_is_the_plan_of_the_same_question(document):
    _, found = document("compare", "--quant", "fp16", "--gpu", "l40s", "--count", "2")
    [row] = found["rows"]
    _, plan = document("plan", "--quant", "fp16", "--gpu", "l40s", "--count", "2")
    assert row["fits"] == plan["fits"]
    assert row["total_bytes"] == plan["per_gpu"]["total_bytes"]
    assert 1000 * row["tpot_s"] == pytest.approx(plan["speed"]["tpot_ms"])
    assert row["usd_per_million"] == pytest.approx(plan["cost"]["usd_per_million_tokens"], rel=1e-3)


def test_matrix_where_nothing_fits(run):
    status, out, _ = run("compare", "--model", "llama-3.3-70b", "--quant", "fp16", "--gpu", "t4", "--count", "1")
    assert status == 1 and re.search(r"T4 +1 +fp16 +no ", out) and "0 combinations fit" in out


def test_spec_shows_curve_and_crossover(run, document):
    asked = ("--model", "llama-3.1-70b", "--draft-model", "llama-3.2-1b", "--gpu", "h100", "--count", "4")
    status, out, _ = run("spec", *asked)
    assert status == 0
    for words in ("Speed-up against draft length", "slower from", "Draft weights per GPU", "Break-even acceptance"):
        assert words in out
    _, found = document("spec", *asked)
    assert len(found["speculation"]["length_curve"]) == 17
    status, out, err = run("spec", "--model", "llama-3.1-70b")
    assert (status, out) == (2, "") and "--draft-model" in err


def test_cost_shows_break_even_offers_and_dates(run, document):
    status, out, _ = run("cost", *FITS)
    assert status == 0
    for words in ("Break-even: utilisation against $", "API offers for this model", "undated", "Whole machines",
                  "per GPU and hour: aws us-east-1", "2026-09-06"):
        assert words in out
    _, found = document("cost", *FITS)
    assert [round(20 * share) for share, _ in found["curve"]] == list(range(1, 21))
    assert {band["kind"] for band in found["offers"]} == {"blended", "blended 3:1", "input", "output"}


def test_unknown_price_and_power_are_said(run, document):
    status, found = document("cost", "--gpu", "nvidia-gb10", "--quant", "fp8")
    assert found["cost"]["usd_per_million_tokens"] is None
    assert {text.split(":")[0] for text in found["cost"]["not_known"]} >= {"price"}
    assert "not known: price" in run("cost", "--gpu", "nvidia-gb10", "--quant", "fp8")[1]


BAD = [
    (("--model", "qwen2.5-7q"), "--model", "Did you mean"),
    (("--gpu", "l40z"), "--gpu", "Did you mean"),
    (("--quant", "q4_k_z"), "--quant", "Did you mean"),
    (("--kv-dtype", "fp9"), "--kv-dtype", "accepted: auto, fp16"),
    (("--engine", "tgi"), "--engine", "accepted: vllm"),
    (("--tp", "3", "--count", "3"), "--tp", "28 attention heads"),
    (("--context", "0"), "--context", "from 1 to"),
    (("--context", "-5"), "--context", "from 1 to"),
    (("--context", "1e30"), "--context", "from 1 to"),
    (("--context", "many"), "--context", "from 1 to"),
    (("--sequences", "99999999999999999999"), "--sequences", "from 1 to"),
    (("--utilisation", "nan"), "--utilisation", "from 0.01 to 1"),
    (("--acceptance", "1.01"), "--acceptance", "from 0 to 1"),
    (("--config", "{"), "--config", "JSON"),
    (("--config", "{}"), "--config", "missing"),
    (("--config", "no-such-file.json"), "--config", "No such file"),
    (("--draft-model", "nope-9b"), "--draft-model", "Did you mean"),
    (("--engine-log", "not a log\nat all"), "--engine-log", ""),
]


@pytest.mark.parametrize(("arguments", "option", "words"), BAD, ids=[" ".join(case[0])[:40] for case in BAD])
def test_bad_input_names_the_option_and_what_is_accepted(run, arguments, option, words):
    status, out, err = run("plan", *arguments)
    assert (status, out) == (2, "")
    assert f"{option}:" in err and words in err


HOSTILE = ["[red]x[red]", "{{7*7}}", "{% include 'x' %}", "<script>alert(1)<script>", "'; DROP TABLE models;--", "%s%n",
           "$(touch pwned)", "x" * 10_000, "数字", "\x1b[2J"]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:12].encode("unicode_escape").decode() for text in HOSTILE])
@pytest.mark.parametrize("option", ["--model", "--gpu", "--quant", "--draft-model", "--config", "--engine-log",
                                    "--matrix-quants"])
def test_hostile_text_is_shown_as_text(run, option, text):
    status, out, err = run("compare" if option == "--matrix-quants" else "plan", option, text)
    assert (status, out) == (2, "")
    assert "\x1b" not in err and (text != "{{7*7}}" or "'49'" not in err)
    if option in ("--model", "--gpu", "--quant", "--draft-model") and len(text) < 80 and text.isprintable():
        assert text in err or repr(text) in err
    assert len(err) < 2500


def test_a_wrong_command_or_option_names_the_nearest(run):
    assert "Did you mean plan" in run("pln")[2]
    status, _, err = run("plan", "--contxt", "5")
    assert status == 2 and "--context" in err


def test_installed_script():
    done = subprocess.run([SCRIPT, "plan", *FITS, "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and json.loads(done.stdout)["fits"] is True
    done = subprocess.run([SCRIPT, "plan", *TOO_LARGE], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == "" and "\x1b" not in done.stdout
    done = subprocess.run([SCRIPT, "plan", "--gpu", "nope"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("Error: --gpu:")
    assert "infersize, version" in subprocess.run([SCRIPT, "--version"], capture_output=True, text=True).stdout
