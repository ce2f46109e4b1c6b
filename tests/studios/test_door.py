"""The one door (studios/render.py) and the Python drawer, on the studio made for tests."""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jinja2
import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "site"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from builder.pack import on_path  # noqa: E402

from studios import drawer, render  # noqa: E402

on_path(ROOT, {"slowcount": ROOT / "tests" / "browser" / "fixtures" / "slowcount"})


def replies(form: str, kind: str = "ask") -> list[dict]:
    message = {"type": kind, "id": 7, "studio": "slowcount", "form": form, "source": "src/{path}#L{line}"}
    return [json.loads(text) for text in render.respond(json.dumps(message))]


def test_an_answer_follows_progress_and_is_completed():
    told = replies("limit=30&steps=3")
    assert [one["type"] for one in told] == ["progress"] * 3 + ["answer", "complete"]
    assert {one["id"] for one in told} == {7}
    answer = told[-2]
    assert answer["query"] == "limit=30&steps=3" and answer["command"] == "slowcount --limit 30 --steps 3"
    assert "10 primes below 30" in answer["panel"] and 'href="src/pycore/units.py#L1"' in answer["panel"]
    assert answer["charts"]["growth"]["config"]["background"] is None


def test_files_are_made_when_asked_for():
    told = replies("limit=10", "take")
    assert told[0]["files"] == {"primes.csv": {"media": "text/csv", "text": "prime\n2\n3\n5\n7\n"}}


@pytest.mark.parametrize("form,fields", [("limit=many&steps=0", ["limit", "steps"]), ("name=sofie", ["name"]), ("nothing=1", ["nothing"])])
def test_every_fault_belongs_to_its_field(form, fields):
    told = replies(form)
    assert [one["type"] for one in told] == ["invalid", "complete"]
    assert [fault["field"] for fault in told[0]["errors"]] == fields


def test_suggestions_travel_with_the_fault():
    assert replies("name=sofie")[0]["errors"][0]["suggestions"] == ["sophie"]


def test_a_fault_of_ours_is_words_not_an_exception():
    told = replies("name=crash")
    assert told[0] == {"id": 7, "type": "broken", "message": "ZeroDivisionError: asked to"}


def test_a_misspelt_field_in_a_template_is_an_error():
    with pytest.raises(jinja2.UndefinedError):
        render.templates().from_string("{{ nothing }}").render()


def test_templates_escape():
    assert render.templates().from_string("{{ x }}").render(x="<b>") == "&lt;b&gt;"


def test_source_links_need_a_pattern_and_a_line():
    assert render.source_link("at/{path}#L{line}", "pycore/units.py:3") == "at/pycore/units.py#L3"
    assert render.source_link("", "pycore/units.py:3") == "" == render.source_link("at/{path}", "")


def run(code: str, form: str = "limit=10") -> dict:
    message = {"type": "run", "id": 1, "studio": "slowcount", "form": form, "code": code}
    with ThreadPoolExecutor(1) as pool:  # a thread of its own: another test may have left an event loop running in this one
        return json.loads(pool.submit(asyncio.run, drawer.run(json.dumps(message))).result())


@pytest.mark.parametrize("code,output", [
    ("answer", "(2, 3, 5, 7)\n"), ("query.limit", "10\n"), ("x = 2", ""), ("x + 1", "3\n"), ("print('a')\n'b'", "a\n'b'\n"), ("", ""),
    ("import asyncio\nawait asyncio.sleep(0)\n1", "1\n"), ("None", ""), ("for i in range(2): print(i)", "0\n1\n"),
])
def test_drawer_runs_lines_like_a_console(code, output):
    run("x = 2")
    assert run(code) == {"type": "ran", "id": 1, "output": output, "error": False}


@pytest.mark.parametrize("code,last", [
    ("1/0", "ZeroDivisionError: division by zero"), ("1 +", "SyntaxError: invalid syntax"), ("raise SystemExit(3)", "SystemExit: 3"),
    ("import json\njson.loads('x')", "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"), ("nothing", "NameError: name 'nothing' is not defined"),
])
def test_drawer_tells_errors_by_the_readers_own_lines(code, last):
    told = run(code)
    assert told["error"] and told["output"].strip().split("\n")[-1] == last
    assert "studios/drawer.py" not in told["output"] and "json/decoder.py" not in told["output"]


def test_drawer_cuts_what_nobody_can_read():
    told = run("print('x' * 300_000)")
    assert len(told["output"]) < 101_000 and told["output"].endswith("more characters")


def test_drawer_says_when_the_question_itself_is_refused():
    assert "'many' is not accepted" in run("answer", "limit=many")["output"]
