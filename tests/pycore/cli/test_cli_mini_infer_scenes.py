"""The commands that draw blocks, as people and scripts use them: text, JSON, files of events, exit statuses, bad input."""

import importlib
import io
import json
import shlex

import pytest

from pycore.cli import mini_infer as program
from pycore.cli.commands import module
from pycore.knobs import from_url, to_command
from pycore.scenes import script
from pycore.scenes.stage import Setting
from pycore.systems.mini_infer import FAULTS, Query, answer
from pycore.systems.mini_infer_question import SCRIPT

PROGRAM = (program.mini_infer, "mini-infer")
COMMANDS = ("scene", "blocks", "radix", "speculate", "museum", "events")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(script.recorded(SCRIPT, Setting(blocks=12, block_size=4, longest=40)), encoding="ascii")
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_the_list_says(run, name):
    command = importlib.import_module(f"pycore.cli.mini_infer.{module(name)}").command
    assert command.help == program.COMMANDS[name]
    status, out, _ = run(name, "--help")
    assert status == 0 and "Examples:" in out and "--frame" in out


def test_blocks_prints_every_picture_and_what_was_wasted(run):
    status, out, err = run("blocks")
    assert status == 0 and not err
    found = answer(Query())
    for said in ("A2 forks from A and shares its 3 blocks", "331211111111", found.waste.allocations[0].share.text,
                 "contiguous, longest text", "holds  No block is lost"):
        assert said in out
    assert out.count("all hold") == found.count and "FAILS" not in out
    assert "Block 2 is copied to block 3" in run("blocks", "--frame", 6)[1]
    assert run("blocks", "--pictures")[1].count("Picture ") == found.count


def test_json_holds_the_picture_and_the_address_gives_it_again(document):
    found = document("blocks", "--frame", 6, "--blocks", 16)
    assert found["frame_number"] == 6 == found["frame"]["number"] and len(found["frame"]["blocks"]) == 16
    again = answer(from_url(Query, found["url"]))
    assert again.frame.what == found["frame"]["what"] and again.count == len(found["frames"])
    assert found["waste"]["allocations"][0]["reserved"]["value"] == again.waste.allocations[0].reserved.value
    whole = document("blocks", "--pictures")
    assert whole["frames"][5]["copies"] == [[2, 3]] and whole["texts"][0]["sequence"] == "A"


@pytest.mark.parametrize("query", [
    Query(), Query(scene="radix", conversation="few-shot"), Query(script="add A 3 +2; step 2", frame=2),
    Query(script="add A 3 +2\nadd B 4 +2"), Query(scene="museum", fault="hash-collision", broken=False),
    Query(scene="speculation", temperature="0.5"), Query(scene="radix", prompts="one two\n> 'three' $x\n*")])
def test_the_command_that_the_page_shows_asks_the_same(run, query):
    status, out, err = run(*shlex.split(to_command(query, "mini-infer scene"))[1:], "--url")
    assert status == 0 and not err
    assert from_url(Query, out.strip()) == query


def test_events_are_written_by_one_command_and_played_by_the_other(run, document, tmp_path):
    path = tmp_path / "events.jsonl"
    assert run("blocks", "--events", path)[0] == 0
    status, out, _ = run("events", path)
    assert status == 0 and "FAILS" not in out and "A2 forks from A" in out
    assert [one["what"] for one in document("events", path)["frames"]] == [frame.what for frame in answer(Query()).film.frames]
    status, out, _ = run("scene", "--scene", "recorded", "--events", path, "--first-step", 6)
    assert status == 0 and "pictures are shown" in out


def test_a_file_that_was_tampered_with_ends_with_status_1(run, file):
    file.write_text(file.read_text(encoding="ascii").replace('["A",0,10,0,1,2]', '["A",0,10,2,1,0]'), encoding="ascii")
    status, out, err = run("events", file)
    assert status == 1 and "Decided alike" in out and not err


def test_events_from_standard_input(run, file, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert run("events", "-")[0] == 0


def test_museum_lists_every_fault_with_its_law(run, document):
    status, out, _ = run("museum")
    assert status == 0
    for name, fault in FAULTS.items():
        assert name in out and fault.law in out
    found = document("museum", "--fault", "no-copy-on-write")
    assert found["exhibit"]["law"]["name"] == "Writers are alone" and not found["frame"]["invariants"][4]["holds"]
    assert "FAILS" not in run("museum", "--fault", "hash-collision", "--broken", "no")[1]


def test_radix_draws_the_tree_and_counts_hits(run, document):
    status, out, _ = run("radix", "--blocks", 30, "--frame", 1000)
    assert status == 0 and "32 of 74 prompt tokens were found again" in out and "[0] You are a careful" in out
    assert document("radix")["conversation"]["reuse"][1]["hit"] == 16


def test_prompts_from_a_file(run, tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("a b c d e\na b c d f\n", encoding="utf-8")
    assert "4 of 10 prompt tokens were found again" in run("radix", "--prompts", path)[1]


def test_speculate_shows_chances_and_the_closed_form(run, document):
    status, out, _ = run("speculate", "--steps", 3)
    assert status == 0 and "Measured against the closed form" in out and "kept with" in out
    found = document("speculate", "--draft-tokens", 2)
    assert len(found["waterfall"]["steps"][0]["guesses"]) == 2
    assert found["waterfall"]["expected"]["value"] == pytest.approx(
        1 + found["waterfall"]["acceptance"]["value"] + found["waterfall"]["acceptance"]["value"] ** 2)


@pytest.mark.parametrize(("arguments", "says"), [
    (("blocks", "--script", "add A"), "--script"), (("blocks", "--script", "no such file"), "--script"),
    (("blocks", "--script", "nosuchfile"), "--script"), (("blocks", "--blocks", "0"), "--blocks"),
    (("blocks", "--policy", "lottery"), "--policy"), (("blocks", "--events", "/no/such/folder/file"), "--events"),
    (("radix", "--prompts", "> a b"), "--prompts"), (("speculate", "--gpu", "abacus"), "--gpu"),
    (("speculate", "--draft-model", "nobody"), "--draft-model"), (("speculate", "--context", "300000"), "--context"),
    (("museum", "--fault", "gremlin"), "--fault"),
    (("events", "/no/such/file"), "--events"), (("events", "."), "--events"), (("scene", "--scene", "opera"), "--scene"),
    (("events", "{}"), "--events"), (("blocks", "--model", "nobody"), "--model"), (("events", "\x00"), "--events")])
def test_what_cannot_be_answered_is_said_in_a_line(run, arguments, says):
    status, out, err = run(*arguments)
    assert status == 2 and not out and says in err and len(err) < 800


def test_nothing_given_for_a_recording_is_no_fault(run):
    status, out, _ = run("scene", "--scene", "recorded")
    assert status == 0 and "No file" in out
    assert json.loads(run("scene", "--scene", "recorded", "--json")[1]) == {"scene": "recorded"}


def test_hostile_text_is_shown_not_obeyed(run):
    out = run("radix", "--prompts", "[red]x[/red] \x1b[31m\u202e <b>\n[red] y")[1]
    assert "\x1b" not in out and "\u202e" not in out and "red" in out
