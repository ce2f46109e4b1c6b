"""The sched-sim command as people and scripts use it: text, JSON, files, exit statuses, bad input, sweeps, a cluster."""

import csv
import gzip
import importlib
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pycore.cli import errors, progress
from pycore.cli import sched_sim as program
from pycore.cli.sched_sim import asking, points, profile, sweep, validate, workers
from pycore.knobs import from_url, parse
from pycore.simulation.golden import golden_runs
from pycore.systems.sched_sim import Query, answer

PROGRAM = (program.sched_sim, "sched-sim")

ROOT = Path(__file__).resolve().parents[3]
SMALL = ["--workload", "poisson rate=8 prompt=256 output=32", "--limit", "120"]
STABLE = ["requests", "completed", "dropped", "makespan_s", "ttft_ms", "tpot_ms", "itl_ms", "e2e_ms",
          "throughput_tokens_per_s", "goodput_requests_per_s", "preemptions", "prefix_hit_ratio", "steps"]
TRACE = "arrival_s,prompt_tokens,output_tokens\n0,100,8\n0.5,200,8\n1.0,300,8\n"


@pytest.fixture
def trace(tmp_path):
    """A file of three requests."""
    path = tmp_path / "three.csv"
    path.write_text(TRACE)
    return path


def test_help_shows_each_command_in_its_own_words():
    for name, text in program.COMMANDS.items():
        command = importlib.import_module(f"pycore.cli.sched_sim.{name}").command
        assert command.help.split("\n")[0] == text


@pytest.mark.parametrize("name", ["", *program.COMMANDS])
def test_help_is_there(run, name):
    status, out, _ = run(*([name] if name else []), "--help")
    assert status == 0 and "Usage: sched-sim" in out


def test_a_wrong_command_is_answered_with_the_nearest(run):
    status, _, err = run("swep")
    assert status == 2 and "Did you mean sweep" in err


# run ----------------------------------------------------------------------------------------------------------------


def test_run_gives_the_stable_keys_first_and_the_figures_of_the_library(document):
    found = document("run", "--scheduler", "chunked", "--chunk-budget", "512", *SMALL)
    assert list(found)[:len(STABLE)] == STABLE
    metrics = answer(parse(Query, {"workload": SMALL[1], "limit": 120})).runs[0].metrics
    assert found["requests"] == found["completed"] == 120 and found["dropped"] == 0
    assert found["makespan_s"] == metrics.makespan.value
    assert found["ttft_ms"]["p99"] == metrics.latencies["ttft"].percentiles[99].value * 1000
    assert found["throughput_tokens_per_s"] * found["makespan_s"] == pytest.approx(120 * 32)
    assert all(check["holds"] for check in found["checks"]) and len(found["checks"]) >= 5


def test_percentiles_of_too_few_samples_are_null_and_say_so(document):
    found = document("run", "--workload", "stall")
    assert found["ttft_ms"]["p99"] is None and "n too small (24" in found["ttft_ms"]["p99_note"]
    assert found["ttft_ms"]["mean"] > 0 and "mean_note" not in found["ttft_ms"]


def test_no_option_asks_what_the_page_asks(document):
    found, page = document("run"), answer(from_url(Query, ""))
    assert found["url"] == "?" and found["makespan_s"] == page.runs[0].metrics.makespan.value
    assert parse(Query, found["query"]) == Query()


def test_url_opens_the_same_question(run):
    status, out, _ = run("run", "--url", "--scheduler", "sjf", *SMALL)
    assert status == 0
    assert from_url(Query, out.strip()) == Query(scheduler="sjf", workload=SMALL[1], limit=120)


def test_run_in_text_names_machine_policy_and_checks(run):
    status, out, err = run("run", *SMALL)
    assert (status, err) == (0, "")
    for word in ("Chunked prefill", "RTX 4090", "Time to first token", "Goodput", "all hold", "not measured"):
        assert word in out


def test_one_block_drops_every_request_and_counts_them(document):
    found = document("run", "--kv-blocks", "1", "--workload", "stall")
    assert (found["completed"], found["dropped"], found["goodput_requests_per_s"]) == (0, 24, 0)
    assert sum(found["lost_to"].values()) == 24


# compare ------------------------------------------------------------------------------------------------------------


def test_compare_runs_the_policies_named_on_the_same_requests(document):
    found = document("compare", "--schedulers", "chunked,fcfs,sjf", *SMALL)
    assert [one["scheduler"] for one in found["runs"]] == ["chunked", "fcfs", "sjf"]
    assert {one["requests"] for one in found["runs"]} == {120}
    alone = document("run", "--scheduler", "fcfs", *SMALL)
    assert {key: found["runs"][1][key] for key in STABLE} == {key: alone[key] for key in STABLE}


def test_compare_by_default_is_the_page(run, document):
    assert [one["scheduler"] for one in document("compare")["runs"]] == [run.policy for run in answer(Query()).runs]
    assert run("compare", "--url")[1].strip() == "?"


def test_compare_marks_the_best_of_a_row(run):
    _, out, _ = run("compare", "--schedulers", "fcfs,chunked", "--workload", "stall")
    assert " *" in next(row for row in out.splitlines() if row.strip().startswith("Makespan"))


def test_compare_says_which_lead_is_more_than_chance(run, document):
    found = document("compare", "--schedulers", "chunked,fcfs", "--workload", "chat", "--limit", "200")
    paired = {(one["latency"], one["figure"]): one for one in found["paired"]}
    assert {name for name, _ in paired} == {"ttft", "tpot", "e2e", "queueing"}
    pace = paired["tpot", "mean"]
    assert pace["ahead"] == "chunked" and pace["of"] == "fcfs"
    fcfs, chunked = found["runs"][1]["tpot_ms"]["mean"], found["runs"][0]["tpot_ms"]["mean"]
    assert pace["by_ms"] == pytest.approx(fcfs - chunked) and pace["certain"] == (pace["low_ms"] is not None and pace["low_ms"] > 0)
    assert not all(one["certain"] for one in paired.values()) and any(one["certain"] for one in paired.values())
    status, out, _ = run("compare", "--schedulers", "chunked,fcfs", "--workload", "chat", "--limit", "200")
    assert status == 0 and " **" in out and "beyond chance" in out


@pytest.mark.parametrize("command", ["run", "compare"])
def test_sweep_and_draws_are_answered_where_they_are_asked(run, document, command):
    """The page's own command for a question with a sweep or draws gives them too."""
    asked = [command, "--against", "fcfs", *SMALL, "--sweep", "rate", "--draws", "2"]
    found, alone = document(*asked), document("run", *SMALL)
    assert [one["factor"] for one in found["draws"][:2]] == [found["draws"][0]["factor"]] * 2 and len(found["draws"]) == 4
    assert set(found["bends"]) == {"chunked", "fcfs"}
    own = [one for one in found["sweep"] if one["scheduler"] == "chunked" and one["rate_per_s"] == 8.0]
    assert [one["ttft_ms"] for one in own] == [alone["ttft_ms"]]
    status, out, _ = run(*asked)
    assert status == 0 and "other arrival rates" in out and "drawn from their uncertainty, 2 times" in out


def test_a_sweep_of_a_file_names_the_command_that_does_it(run, document, trace):
    status, _, err = run("run", "--trace", trace, "--sweep", "rate")
    assert status == 2 and "--sweep" in err and "sched-sim sweep --over rate" in err
    assert len(document("run", "--trace", trace, "--draws", "3")["draws"]) == 3


# sweep --------------------------------------------------------------------------------------------------------------


def test_sweep_over_rates_in_processes_is_what_single_runs_give(document):
    found = document("sweep", "--at", "4,8,16", *SMALL, "--processes", "2")
    assert [point["rate_per_s"] for point in found["points"]] == [4, 8, 16]
    alone = document("run", "--workload", SMALL[1].replace("rate=8", "rate=16"), "--limit", "120")
    assert {key: found["points"][2][key] for key in STABLE} == {key: alone[key] for key in STABLE}
    assert found == document("sweep", "--at", "16,8,4", *SMALL, "--processes", "1")
    assert set(found) >= {"knee", "saturation", "cliff", "best_goodput", "remarks"}


def test_sweep_over_chunks_moves_the_chunk_budget(document):
    found = document("sweep", "--over", "chunk", "--at", "128,2k", *SMALL, "--processes", "1")
    assert [point["chunk_budget"] for point in found["points"]] == [128, 2048]
    assert all(isinstance(point["chunk_budget"], int) for point in found["points"])
    assert found["points"][0]["steps"] > found["points"][1]["steps"]


def test_sweep_in_text_draws_the_goodput(run):
    status, out, _ = run("sweep", "--at", "2,4,64", *SMALL, "--processes", "1")
    assert status == 0 and "█" in out and "requests/s" in out


def test_a_trace_is_swept_by_its_speed(document, trace):
    found = document("sweep", "--trace", trace, "--at", "3,30", "--processes", "1")
    assert found["points"][0]["makespan_s"] > found["points"][1]["makespan_s"]


def test_a_point_that_cannot_run_does_not_end_the_sweep(monkeypatch, document):
    good = points.compute
    monkeypatch.setattr(workers, "compute", lambda place: replace(good(place), fault="no") if place.at == 4 else good(place))
    found = document("sweep", "--at", "4,8", *SMALL, "--processes", "1")
    assert found["points"][0]["fault"] == "no" and "fault" not in found["points"][1]


def test_runs_that_break_their_laws_are_a_fault():
    with pytest.raises(RuntimeError, match="at 4"):
        sweep.hold([points.Found(at=4, figures={}, checked=False), points.Found(at=8, figures={}, checked=True)])


def test_a_dask_cluster_gives_the_same_points(document):
    import distributed

    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None,
                                  host="127.0.0.1", protocol="tcp", scheduler_port=0) as cluster:
        there = document("sweep", "--at", "4,8", *SMALL, "--dask", cluster.scheduler_address)
    assert there == document("sweep", "--at", "4,8", *SMALL, "--processes", "1")


def test_without_dask_the_message_says_what_to_install(monkeypatch, run):
    monkeypatch.setitem(sys.modules, "distributed", None)
    status, _, err = run("sweep", *SMALL, "--dask", "tcp://127.0.0.1:1")
    assert status == 2 and "inference-studios[cluster]" in err


def test_a_scheduler_that_is_not_there_is_said(monkeypatch, run):
    monkeypatch.setattr(workers, "PATIENCE", "0.2s")
    for address in ("tcp://127.0.0.1:1", "nonsense://x", ""):
        status, _, err = run("sweep", *SMALL, "--dask", address)
        assert status == 2 and "no Dask scheduler answers" in err


# replay -------------------------------------------------------------------------------------------------------------


def test_replay_reads_plain_and_gzipped_files_alike(document, trace, tmp_path):
    packed = tmp_path / "three.csv.gz"
    packed.write_bytes(gzip.compress(TRACE.encode()))
    plain, zipped = document("replay", trace), document("replay", packed)
    assert {key: plain[key] for key in STABLE} == {key: zipped[key] for key in STABLE}
    assert (plain["requests"], plain["completed"]) == (3, 3)
    assert document("replay", trace, "--limit", "2")["requests"] == 2


def test_replay_and_run_with_the_trace_agree(document, trace):
    replayed, given = document("replay", trace), document("run", "--trace", trace)
    assert {key: replayed[key] for key in STABLE} == {key: given[key] for key in STABLE}


def test_tokens_a_step_are_the_chunk_budget_too_as_in_vllm(document, trace):
    assert document("replay", trace, "--max-batched-tokens", "2048")["query"]["chunk_budget"] == 2048
    both = document("replay", trace, "--max-batched-tokens", "2048", "--chunk-budget", "256")
    assert both["query"]["chunk_budget"] == 256


def test_the_golden_run_through_replay_is_within_five_percent(document, tmp_path):
    """vLLM's own log of the RTX 4090 as an oracle; which prompts share a prefix is not in the file."""
    real = next(one for one in golden_runs() if "4090" in one.accelerator)
    path = tmp_path / "golden.csv"
    path.write_text("arrival_ns,prompt_tokens,output_tokens\n" + "".join(
        f"{one.arrival_ns},{one.prompt_tokens},{one.output_tokens}\n" for one in real.requests))
    found = document("replay", path, "--model", "llama-3.1-8b", "--hardware", "rtx 4090", "--max-sequences", real.max_sequences,
                     "--max-batched-tokens", real.max_batched_tokens, "--kv-blocks", real.kv_blocks)
    assert found["makespan_s"] == pytest.approx(max(one.finished_ns for one in real.requests) / 1e9, rel=0.05)
    waits = [one.first_token_ns - one.arrival_ns for one in real.requests]
    assert found["ttft_ms"]["mean"] == pytest.approx(sum(waits) / len(waits) / 1e6, rel=0.05)


def write_profile(folder, prefix="", scale=1.0, packed=False):
    """A small profile in LLMServingSim's layout, every kernel a microsecond or ten."""
    tables = {
        "dense": ["layer,tokens,time_us"] + [f"{layer},{tokens},{scale * tokens}" for layer in (
            "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj", "embedding",
            "final_layernorm") for tokens in (1, 4096)],
        "per_sequence": ["layer,sequences,time_us"] + [f"{layer},{count},{scale}" for layer in ("lm_head", "sampler")
                                                       for count in (1, 256)],
        "attention": ["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"] + [
            f"{chunk},{before},{decoding},{context},{scale * 10}" for chunk in (0, 512) for before in ((0,) if not chunk else (0, 4096))
            for decoding, contexts in ((0, (0,)), (1, (16, 4096)), (64, (16, 4096))) for context in contexts if chunk or decoding]}
    folder.mkdir(parents=True, exist_ok=True)
    for kind, lines in tables.items():
        text = "\n".join(lines) + "\n"
        if packed:
            (folder / f"{prefix}{kind}.csv.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"{prefix}{kind}.csv").write_text(text)


def test_a_profile_sets_the_step_times(document, trace, tmp_path):
    write_profile(tmp_path / "slow", scale=100.0)
    write_profile(tmp_path / "fast" / "tp1", packed=True)
    slow, fast = document("replay", trace, "--profile", tmp_path / "slow"), document("replay", trace, "--profile", tmp_path / "fast")
    assert slow["tpot_ms"]["mean"] > 10 * fast["tpot_ms"]["mean"]
    assert str(tmp_path / "slow") in slow["step_times"]


def test_of_several_profiles_the_one_of_the_machine_is_taken(tmp_path, run, trace):
    for prefix in ("sim_RTX4090_Llama-3.1-8B_", "sim_RTXPRO6000_Llama-3.1-8B_"):
        write_profile(tmp_path, prefix)
    assert profile.read_profile(str(tmp_path), Query()).id == "sim_RTX4090_Llama-3.1-8B"
    assert profile.read_profile(str(tmp_path), Query(hardware="rtx pro 6000")).id == "sim_RTXPRO6000_Llama-3.1-8B"
    status, _, err = run("replay", trace, "--profile", tmp_path, "--hardware", "l40s")
    assert status == 2 and "--profile" in err and "sim_RTX4090_Llama-3.1-8B" in err


@pytest.mark.parametrize("fault", ["absent", "empty", "cut", "words"])
def test_a_profile_that_is_wrong_is_said(tmp_path, run, trace, fault):
    folder = tmp_path / "profile"
    if fault != "absent":
        write_profile(folder, packed=fault == "cut")
    if fault == "empty":
        (folder / "attention.csv").unlink()
    if fault == "cut":
        path = folder / "dense.csv.gz"
        path.write_bytes(path.read_bytes()[:-12])
    if fault == "words":
        (folder / "dense.csv").write_text("layer,tokens,time_us\nqkv_proj,one,2\n")
    status, out, err = run("replay", trace, "--profile", folder)
    assert (status, out) == (2, "") and "--profile" in err


# validate, export, info ---------------------------------------------------------------------------------------------


def test_validate_prints_the_table_and_passes(run, document):
    status, out, _ = run("validate")
    assert status == 0 and out.count("yes") >= 8 and "NO" not in out
    found = document("validate")
    assert found["passes"] and [len(one["figures"]) for one in found["runs"]] == [4, 4]
    assert all(abs(figure["error_percent"]) <= 5 for one in found["runs"] for figure in one["figures"])


def test_validate_ends_with_one_where_a_figure_is_off(monkeypatch, run):
    setup = validate.golden_setup
    monkeypatch.setattr(validate, "golden_setup", lambda real: setup(real, blocks=real.kv_blocks * 2))
    status, out, _ = run("validate")
    assert status == 1 and "NO" in out


def test_perfetto_export_is_a_chrome_trace(run, tmp_path):
    path = tmp_path / "trace.json"
    assert run("export", "perfetto", *SMALL, "--out", path)[0] == 0
    events = json.loads(path.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert slices and all(event["dur"] >= 0 for event in slices)
    assert {event["name"] for event in events if event["ph"] == "C"} == {"KV blocks", "requests"}


def test_csv_exports_hold_every_request_and_every_step(run, document):
    found = document("run", *SMALL)
    rows = list(csv.DictReader(io.StringIO(run("export", "requests", *SMALL)[1])))
    assert len(rows) == found["requests"] and all(int(row["generated_tokens"]) == 32 for row in rows)
    assert max(int(row["finished_ns"]) for row in rows) == round(found["makespan_s"] * 1e9)
    rows = list(csv.DictReader(io.StringIO(run("export", "steps", *SMALL)[1])))
    assert len(rows) == found["steps"] and sum(int(row["emitted"]) for row in rows) == 120 * 32


def test_a_request_named_like_a_formula_is_quoted_in_csv(run, tmp_path):
    path = tmp_path / "evil.csv"
    path.write_text("id,arrival_s,prompt_tokens,output_tokens\n=1+1,0,10,2\n")
    rows = list(csv.DictReader(io.StringIO(run("export", "requests", "--trace", path)[1])))
    assert rows[0]["id"] == "'=1+1"


def test_export_into_a_folder_that_is_not_there(run, tmp_path):
    status, _, err = run("export", "steps", *SMALL, "--out", tmp_path / "none" / "steps.csv")
    assert status == 2 and "--out" in err


def test_info_names_what_there_is(run, document):
    found = document("info")
    assert {"chunked", "fcfs", "disaggregated"} <= set(found["schedulers"])
    assert "chat" in found["workloads"] and len(found["kernel_tables"]) == 2 and len(found["traces"]) >= 4
    assert all(name in run("info")[1] for name in found["schedulers"])


def test_every_workload_of_info_is_accepted(document):
    for name in document("info")["workloads"]:
        assert document("run", "--workload", name, "--limit", "24", "--hardware", "h100")["requests"] == 24


# Bad input ----------------------------------------------------------------------------------------------------------

BAD_TRACES = {
    "a column missing": (b"arrival_s,prompt_tokens\n0,1\n", ("output_tokens",)),
    "nan": (b"arrival_s,prompt_tokens,output_tokens\n0,1,1\n1,nan,1\n", ("line 3", "column 2 (prompt_tokens)", "'nan'")),
    "negative time": (b"arrival_s,prompt_tokens,output_tokens\n0,1,1\n-1,1,1\n", ("line 3", "column 1 (arrival_s)", "'-1'")),
    "zero length": (b"arrival_s,prompt_tokens,output_tokens\n0,0,1\n", ("line 2", "column 2 (prompt_tokens)")),
    "UTF-16": ("arrival_s,prompt_tokens,output_tokens\n0,1,1\n".encode("utf-16"), ("UTF-16",)),
    "Latin-1": (b"arrival_s,prompt_tokens,output_tokens\n0,1,\xe9\n", ("line 2", "UTF-8")),
    "cut gzip": (gzip.compress(TRACE.encode())[:-9], ("gzip",)),
    "empty": (b"", ("empty",)),
    "a header only": (b"arrival_s,prompt_tokens,output_tokens\n", ("no request",)),
}


@pytest.mark.parametrize("name", BAD_TRACES)
@pytest.mark.parametrize("command", ["replay", "run --trace"])
def test_a_bad_trace_is_refused_with_its_place(run, tmp_path, name, command):
    content, words = BAD_TRACES[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    status, out, err = run(*command.split(), path)
    assert (status, out) == (2, "") and "bad.csv" in err
    assert all(word in err for word in words), err


@pytest.mark.parametrize(("arguments", "words"), [
    (["run", "--chunk-budget", "0"], ["--chunk-budget", "'0'"]),
    (["run", "--workload", "poisson rate=inf"], ["--workload", "rate=inf"]),
    (["run", "--workload", "poisson rate=nan"], ["--workload", "rate=nan"]),
    (["run", "--workload", "[red]x[/red]\x1b[31m"], ["--workload", "[red]x[/red]\\x1b[31m"]),
    (["run", "--scheduler", "fifo"], ["--scheduler", "chunked"]),
    (["run", "--hardware", "nosuch"], ["--hardware", "Did you mean"]),
    (["run", "--model", "deepseek-v3"], ["--hardware", "room"]),
    (["run", "--cost", "custom", "--custom-cost", "{"], ["--custom-cost"]),
    (["run", "--trace", "/nowhere/at/all"], ["--trace", "No such file"]),
    (["run", "--trace", "a\0b"], ["--trace"]),
    (["replay", "/nowhere/at/all"], ["No such file"]),
    (["replay", "/"], ["directory"]),
    (["replay", "x", "--speed", "0"], ["--speed"]),
    (["compare", "--schedulers", "fcfs,nosuch"], ["--schedulers", "nosuch"]),
    (["compare", "--schedulers", ","], ["--schedulers"]),
    (["sweep", "--workload", "agents"], ["--workload", "rate"]),
    (["sweep", "--at", "1,x"], ["--at", "'x'"]),
    (["sweep", "--at", "inf"], ["--at"]),
    (["sweep", "--over", "chunk", "--at", "0"], ["--at"]),
    (["sweep", "--over", "chunk", "--scheduler", "fcfs"], ["--scheduler", "chunked"]),
    (["export", "pdf"], ["perfetto"]),
])
def test_bad_input_is_a_message_with_the_options_name(run, arguments, words):
    status, out, err = run(*arguments)
    assert (status, out) == (2, ""), err
    assert all(word in err for word in words), err


def test_a_prompt_longer_than_the_model_is_dropped_and_counted(document, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,999999,1\n1,100,4\n")
    found = document("replay", path)
    assert (found["requests"], found["completed"], found["dropped"]) == (2, 1, 1)


def test_times_out_of_order_are_sorted_and_noted(document, tmp_path):
    path = tmp_path / "order.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n5,10,2\n1,10,2\n")
    assert any("sorted by arrival" in note for note in document("replay", path)["notes"])


def test_interrupted_is_130(monkeypatch, run):
    def stop(asked):
        raise KeyboardInterrupt

    monkeypatch.setattr(asking, "steps", stop)
    assert run("run")[0] == errors.INTERRUPTED


# The program itself -------------------------------------------------------------------------------------------------


def test_a_progress_bar_is_drawn_only_on_a_terminal(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    for stream, drawn in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.bar() as report:
            report("[red]half[/red]", 0.5)
        assert bool(stream.getvalue()) == drawn
        assert not drawn or "[red]half[/red]" in stream.getvalue()


def test_a_trace_from_standard_input():
    out = subprocess.run([sys.executable, "-c", "from pycore.cli.sched_sim import main; main()", "replay", "-", "--json"],
                         input=TRACE.encode(), capture_output=True, cwd=ROOT, check=True)
    assert json.loads(out.stdout)["completed"] == 3


def test_help_loads_neither_the_simulator_nor_rich():
    code = ("import sys\nfrom pycore.cli.sched_sim import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
            "assert not {'rich', 'pycore.simulation', 'numpy', 'distributed'} & set(sys.modules), sys.modules.keys()")
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
