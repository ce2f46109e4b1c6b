"""What sched-sim says of a question can be asked again: its workload's line, its command, its address, its points."""

import csv
import io
import shlex
import sys

import pytest

from pycore.cli import sched_sim as program
from pycore.knobs import from_url
from pycore.systems.sched_sim import Query, answer, offered, requests

PROGRAM = (program.sched_sim, "sched-sim")

SMALL = ["--workload", "poisson rate=8 prompt=256 output=32", "--limit", "60"]
STABLE = ["requests", "completed", "dropped", "makespan_s", "ttft_ms", "tpot_ms", "itl_ms", "e2e_ms",
          "throughput_tokens_per_s", "goodput_requests_per_s", "preemptions", "prefix_hit_ratio", "steps"]


def stable(found):
    """The figures that a script reads."""
    return {key: found[key] for key in STABLE}


# The workload's line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [["--workload", "stall", "--limit", "5"], ["--workload", "stall", "--limit", "9"],
                                   ["--workload", "chat", "--limit", "40", "--seed", "0"],
                                   ["--workload", "chat seed=0", "--limit", "40"]])
def test_the_workload_that_is_said_gives_the_same_run(document, asked):
    found = document("run", *asked)
    assert stable(document("run", "--workload", found["workload"])) == stable(found)


# The points of a sweep ------------------------------------------------------------------------------------------------

SEEDED = "poisson rate=6 prompt=lognormal:1500 output=150 requests=60"


@pytest.mark.parametrize("line", [f"{SEEDED} seed=9", f"{SEEDED} seed=0", SEEDED])
def test_a_sweep_keeps_the_seed_of_the_line(document, line):
    """Asked with another seed of the question, at its own rate: the run itself."""
    alone = document("run", "--workload", line, "--seed", "4")
    swept = document("sweep", "--over", "rate", "--at", "6", "--workload", line, "--seed", "4", "--processes", "1")
    assert stable(swept["points"][0]) == stable(alone)


LOG = "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{0.3 * number},{100 + 20 * number},8\n" for number in range(30))
SWEPT = {"a process": {"workload": f"{SEEDED} seed=9"}, "a replay": {"workload": "replay trace=azure-conversation", "limit": 25},
         "a preset": {"workload": "stall"}, "a log": {"trace": LOG}}


@pytest.mark.parametrize("name", SWEPT)
def test_without_at_the_points_are_the_pages(document, name):
    """The same rates and, at each, the same figures."""
    asked = SWEPT[name]
    page = answer(Query(scheduler="fcfs", against="", sweep="rate", **asked)).sweep
    options = [text for key, value in asked.items() for text in (f"--{key}", value)]
    found = document("sweep", "--over", "rate", "--scheduler", "fcfs", *options, "--processes", "1")["points"]
    assert len(page) == len(found) > 5
    for theirs, ours in zip(page, found, strict=True):
        assert ours["rate_per_s"] == pytest.approx(theirs.at, rel=1e-12)
        assert ours["makespan_s"] == theirs.metrics.makespan.value
        assert ours["ttft_ms"]["mean"] == theirs.metrics.latencies["ttft"].mean.value * 1000


def test_the_rate_of_a_log_is_of_the_gaps_between_its_requests(document, tmp_path):
    """31 requests, one every 0.3 s, are 10 in 3 s: 30 gaps in 9 s."""
    path = tmp_path / "log.csv"
    path.write_text(LOG + "9.0,100,8\n")
    found = document("sweep", "--over", "rate", "--trace", path, "--processes", "1")
    assert 10 / 3 in [pytest.approx(point["rate_per_s"], rel=1e-12) for point in found["points"]]
    given = document("sweep", "--over", "rate", "--trace", path, "--at", repr(20 / 3), "--processes", "1")
    faster = document("replay", path, "--speed", "2")
    assert given["points"][0]["makespan_s"] == pytest.approx(faster["makespan_s"], rel=1e-9)


def test_points_that_a_workload_does_not_go_to_are_said_and_the_others_run(run, document):
    """8,000 a second times 1.25 is the most there is."""
    asked = ["sweep", "--over", "rate", "--workload", "poisson rate=8000 prompt=64 output=2 requests=20", "--processes", "1"]
    points = document(*asked)["points"]
    assert [point["rate_per_s"] for point in points if "fault" not in point] == [2000, 4000, 6000, 8000, 10000]
    refused = [point for point in points if "fault" in point]
    assert [point["rate_per_s"] for point in refused] == [12000, 16000, 24000, 32000]
    assert all("accepted" in point["fault"] and "10,000" in point["fault"] for point in refused)
    assert "12000" in run(*asked)[1]


@pytest.mark.parametrize(("arguments", "words"), [
    (["--at", ""], ["--at", "''"]), (["--at", "6,"], ["--at", "''"]), (["--over", "chunk", "--at", ""], ["--at", "''"]),
    (["--at", "6,20000"], ["--at", "'20000'", "10,000"]),
    (["--at", "1e9", "--workload", "replay trace=azure-conversation"], ["--at", "speed"])])
def test_a_point_that_was_named_and_cannot_be_is_refused_by_name(run, arguments, words):
    status, out, err = run("sweep", *SMALL[:2], *arguments)
    assert (status, out) == (2, "") and all(word in err for word in words), err


def test_a_rate_while_on_above_the_most_is_a_fault_of_the_point(document):
    """Four times 3,000 while ON: the mean rate may be 2,500 at most."""
    line = "onoff rate=2000 on=1s off=3s prompt=64 output=2 requests=20"
    found = document("sweep", "--workload", line, "--processes", "1")["points"]
    assert ["fault" in point for point in found] == [point["rate_per_s"] > 2500 for point in found]
    assert requests(Query(workload=line)).requests


# Why a request waited -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["chunked", "fcfs"])
def test_why_a_request_waited_adds_up_to_its_stay(run, document, scheduler):
    """The tenth of the stall stands behind the ninth's long prompt; what the log of requests says is its stay."""
    asked = ["--workload", "stall", "--scheduler", scheduler]
    found = document("run", *asked, "--request", "10")
    assert found["why"]["request"] == "10"
    one, = found["why"]["policies"]
    log = next(row for row in csv.DictReader(io.StringIO(run("export", "requests", *asked)[1])) if row["id"] == "10")
    assert one["scheduler"] == scheduler
    assert one["stay_ms"] == pytest.approx((int(log["finished_ns"]) - int(log["arrival_ns"])) / 1e6)
    assert one["working_ms"] + one["idle_ms"] == pytest.approx(one["stay_ms"])
    assert sum(cause["idle_ms"] for cause in one["causes"]) == pytest.approx(one["idle_ms"])
    first = one["causes"][0]
    assert (first["reason"], first["behind"], first["phase"]) == ("behind prefill", "9", "before its first token")
    assert first["idle_ms"] > 0.5 * one["idle_ms"] and first["remedy"]["rule"]


def test_asking_why_adds_one_key_and_changes_none(document):
    asked, plain = document("run", *SMALL, "--request", "7"), document("run", *SMALL)
    assert set(asked) - set(plain) == {"why"} and stable(asked) == stable(plain)
    assert list(plain)[:len(STABLE)] == list(asked)[:len(STABLE)] == STABLE


def test_compare_says_what_the_other_policies_did_of_a_wait(run, document):
    asked = ["compare", "--schedulers", "fcfs,chunked", "--workload", "stall", "--request", "10"]
    fcfs, chunked = document(*asked)["why"]["policies"]
    assert (fcfs["scheduler"], chunked["scheduler"]) == ("fcfs", "chunked")
    for one, other in ((fcfs, "chunked"), (chunked, "fcfs")):
        assert all(set(cause["idle_ms_under"]) == {other} for cause in one["causes"])
    behind = {one["scheduler"]: sum(cause["idle_ms"] for cause in one["causes"] if cause["reason"] == "behind prefill"
                                    and cause["phase"] == "before its first token") for one in (fcfs, chunked)}
    assert fcfs["causes"][0]["idle_ms_under"]["chunked"] == pytest.approx(behind["chunked"])
    status, out, _ = run(*asked)
    assert status == 0 and "Why request 10 waited" in out and "behind prefill of request 9" in out and "under chunked" in out


def test_why_is_answered_of_a_log_too_and_asks_for_one_of_its_requests(run, document, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    name = document("run", "--trace", path, "--request", "30")["why"]["policies"][0]
    assert (name["prompt_tokens"], name["output_tokens"]) == (680, 8)
    for command in (["run", "--trace", path], ["replay", path], ["run", *SMALL]):
        status, out, err = run(*command, "--request", "no such")
        assert (status, out) == (2, "") and "--request" in err and "'no such'" in err


def test_a_request_that_was_dropped_or_never_waited_is_answered(run):
    assert "dropped: prompt and output need" in run("run", "--workload", "stall", "--kv-blocks", "1", "--request", "9")[1]
    out = run("run", "--workload", "deterministic rate=0.01 prompt=10 output=2 requests=2", "--request", "1")[1]
    assert "Why request 1 waited" in out and "idle 0 s of" in out


@pytest.mark.parametrize("command", [["sweep"], ["export", "requests"]])
def test_commands_that_explain_no_request_take_none(run, command):
    status, _, err = run(*command, *SMALL, "--request", "1")
    assert status == 2 and "--request" in err


# The command and the address ------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    """A file whose name a shell would take apart."""
    path = tmp_path / "a log; it's mine.csv"
    path.write_text(LOG)
    return path


@pytest.fixture
def kernels(tmp_path):
    """Kernel times in LLMServingSim's layout, each of a microsecond or ten."""
    dense = [f"{layer},{tokens},{tokens}" for tokens in (1, 4096) for layer in (
        "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj", "embedding", "final_layernorm")]
    sequences = [f"{layer},{count},1" for layer in ("lm_head", "sampler") for count in (1, 256)]
    attention = [f"{chunk},{before},{decoding},{context},10" for chunk, before in ((0, 0), (512, 0), (512, 4096))
                 for decoding, context in ((0, 0), (1, 16), (1, 4096), (64, 16), (64, 4096)) if chunk or decoding]
    folder = tmp_path / "kernel times"
    folder.mkdir()
    for name, head, rows in (("dense", "layer,tokens,time_us", dense), ("per_sequence", "layer,sequences,time_us", sequences),
                             ("attention", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", attention)):
        (folder / f"{name}.csv").write_text("\n".join((head, *rows)) + "\n")
    return folder


COMMANDS = {  # (arguments, whether an address holds them)
    "a question": (["run", *SMALL, "--scheduler", "sjf"], True),
    "beside the usual policy": (["run", *SMALL, "--against", "fcfs"], True),
    "beside no policy": (["compare", *SMALL, "--against", ""], True),
    "policies": (["compare", *SMALL, "--schedulers", "sjf,fcfs,chunked"], True),
    "a file": (["run", "--trace", "LOG", "--limit", "20"], False),
    "a file under several policies": (["compare", "--trace", "LOG", "--schedulers", "sjf,fcfs"], False),
    "a log in the command": (["run", "--trace", LOG, "--limit", "9"], True),
    "a replay": (["replay", "LOG", "--max-batched-tokens", "2048"], False),
    "a faster replay": (["replay", "LOG", "--speed", "2.5"], False),
    "a replay on other kernels": (["replay", "LOG", "--speed", "2", "--profile", "KERNELS", "--against", "fcfs"], False),
    "a replay of a log in the command": (["replay", LOG], True),
    "a faster replay of a log in the command": (["replay", LOG, "--speed", "2"], False),
    "a request of a file": (["run", "--trace", "LOG", "--request", "3"], False),
    "a sweep": (["sweep", *SMALL, "--over", "rate", "--processes", "1"], True),
    "a sweep at one's own points": (["sweep", *SMALL, "--at", "3,6", "--processes", "1"], False),
    "a sweep of a file": (["sweep", "--trace", "LOG", "--over", "chunk", "--processes", "1"], False),
    "a sweep of a log in the command": (["sweep", "--trace", LOG, "--over", "rate", "--processes", "1"], True),
    "chunks of two pools": (["sweep", *SMALL, "--over", "chunk", "--scheduler", "disaggregated", "--link-gb-s", "20",
                             "--processes", "1"], False),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_that_is_said_asks_the_same_again(document, log, kernels, name):
    arguments, addressed = COMMANDS[name]
    found = document(*({"LOG": log, "KERNELS": kernels}.get(one, one) for one in arguments))
    program_name, *again = shlex.split(found["command"])
    assert program_name == "sched-sim" and document(*again) == found
    if not addressed:
        assert found["url"] is None and found["url_note"].startswith("no address holds ")
        return
    assert "url_note" not in found
    query = from_url(Query, found["url"])
    made = [found] if "makespan_s" in found else found.get("runs") or [
        point for point in found["points"] if point["rate_per_s"] == requests_per_s(query)]
    assert made and answer(query).runs[0].metrics.makespan.value == made[0]["makespan_s"]


def requests_per_s(query):
    """Its own rate, in the words of the page."""
    return offered(requests(query))


def test_a_log_from_standard_input_is_asked_for_there(document, monkeypatch):
    class Input:
        buffer = io.BytesIO(LOG.encode())

    monkeypatch.setattr(sys, "stdin", Input)
    found = document("replay", "-", "--limit", "5")
    assert found["command"] == "sched-sim replay - --limit 5" and found["url"] is None and "standard input" in found["url_note"]


def test_a_file_chosen_on_the_page_is_named_in_the_command(document, log, monkeypatch):
    monkeypatch.chdir(log.parent)
    found = document("run", "--trace", f"upload:{'0' * 16}:{log.name}")
    assert shlex.split(found["command"]) == ["sched-sim", "run", "--trace", log.name]
    (log.parent / "-x.csv").write_text(LOG)
    assert shlex.split(document("run", "--trace", "-x.csv")["command"])[-1] == "./-x.csv"


@pytest.mark.parametrize("arguments", [["run", "--trace", "LOG"], ["compare", "--trace", "LOG"], ["sweep", "--trace", "LOG"],
                                       ["sweep", "--at", "3"]])
def test_an_address_that_would_ask_something_else_is_refused(run, log, arguments):
    status, out, err = run(*(log if one == "LOG" else one for one in arguments), "--hardware", "l40s", "--url")
    assert (status, out) == (2, "") and "--url" in err and "hardware=l40s" in err
    machine = run("replay", log, "--hardware", "l40s", "--url")
    assert machine[:2] == (0, "?hardware=l40s\n")  # its help says that the trace is dropped there


def test_an_export_says_how_it_was_made(document, log, tmp_path):
    out = tmp_path / "steps of it.csv"
    found = document("export", "steps", "--trace", log, "--out", out)
    text = out.read_text()
    out.unlink()
    assert document(*shlex.split(found["command"])[1:]) == found and out.read_text() == text


# Files ----------------------------------------------------------------------------------------------------------------


def test_a_log_of_requests_has_latencies_that_the_summary_is_made_of(run, document):
    asked = [*SMALL, "--scheduler", "sjf"]
    rows, found = list(csv.DictReader(io.StringIO(run("export", "requests", *asked)[1]))), document("run", *asked)
    assert {row["policy"] for row in rows} == {found["label"]}
    for name in ("ttft", "tpot", "e2e", "queueing"):
        values = [float(row[f"{name}_ns"]) for row in rows]
        assert sum(values) / len(values) / 1e6 == pytest.approx(found[f"{name}_ms"]["mean"])
    for row in rows:
        assert int(row["e2e_ns"]) == int(row["finished_ns"]) - int(row["arrival_ns"])
        assert float(row["tpot_ns"]) * (int(row["generated_tokens"]) - 1) == pytest.approx(int(row["e2e_ns"]) - int(row["ttft_ns"]))


def test_what_never_happened_is_an_empty_cell(run):
    rows = list(csv.DictReader(io.StringIO(run("export", "requests", "--workload", "stall", "--kv-blocks", "1")[1])))
    assert len(rows) == 24 and all(row["ttft_ns"] == row["tpot_ns"] == row["finished_ns"] == "" for row in rows)
    assert all(row["dropped"].startswith("prompt and output need") for row in rows)
