"""Files that come later, at the door: a generator asks, whoever drives it brings them or says why not."""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "site"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from builder.pack import on_path  # noqa: E402

from pycore.cache import Needs, absent, place  # noqa: E402
from studios import drawer, render  # noqa: E402

on_path(ROOT, {"lateread": ROOT / "tests" / "browser" / "fixtures" / "lateread"})


@pytest.fixture(autouse=True)
def empty(monkeypatch, tmp_path):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))


def bring(name: str) -> None:
    render.studio("lateread").supply(name, print)


def told(form: str, answer, kind: str = "ask") -> list[dict]:
    """The replies, where `answer(name)` brings a file (None) or says why not."""
    replies = render.respond(json.dumps({"type": kind, "id": 3, "studio": "lateread", "form": form, "source": ""}))
    out, sent = [], None
    while True:
        try:
            out.append(json.loads(replies.send(sent)))
        except StopIteration:
            return out
        sent = answer(out[-1]["files"][0]["name"]) if out[-1]["type"] == "needs" else None


def test_files_are_asked_for_one_by_one_where_they_will_be_read():
    first, needs, *rest = told("books=2", bring)
    assert first["type"] == "answer" and "data-keep" in first["panel"]
    assert needs == {"id": 3, "type": "needs", "files": [{"name": "books/first.bin", "path": str(place("books/first.bin"))}],
                     "packages": []}
    assert [one["type"] for one in rest] == ["needs", "answer", "complete"]
    assert rest[1]["panel"].count("<li>") == 2 and "data-keep" not in rest[1]["panel"]
    assert [one["type"] for one in told("books=2", bring)] == ["answer", "answer", "complete"]


def test_why_a_file_could_not_be_had_reaches_the_reader():
    replies = told("", lambda name: "the server answered 404")
    assert [one["type"] for one in replies] == ["answer", "needs", "invalid", "complete"]
    assert replies[2]["message"] == "books/first.bin: the server answered 404"


def test_a_studio_may_go_on_without_it():
    *_, answer, complete = told("careful=yes&books=2", lambda name: bring(name) if "second" in name else "no")
    assert "books/first.bin is not here: books/first.bin: no" in answer["panel"] and answer["panel"].count("<li>") == 2


def test_who_can_bring_nothing_gets_words_not_an_exception():
    replies = list(map(json.loads, render.respond(json.dumps({"type": "ask", "id": 1, "studio": "lateread", "form": ""}))))
    assert [one["type"] for one in replies] == ["answer", "needs", "broken", "complete"]  # this studio reads without looking


@pytest.mark.parametrize("answer,types", [(bring, ["needs", "needs", "files", "complete"]),
                                          (lambda name: "no", ["needs", "invalid", "complete"])])
def test_what_a_reader_takes_asks_too(answer, types):
    assert [one["type"] for one in told("books=2", answer, "take")] == types


def test_the_drawer_brings_what_its_question_needs():
    async def fetched(name: str, path: str) -> None:
        assert path == str(place(name))
        bring(name)

    message = json.dumps({"type": "run", "id": 1, "studio": "lateread", "form": "books=2", "code": "len(answer)"})
    with ThreadPoolExecutor(1) as pool:
        reply = json.loads(pool.submit(asyncio.run, drawer.run(message, fetched)).result())
    assert reply["output"] == "2\n"


def test_a_snapshot_is_checked_by_what_needs_no_file():
    first, rest = render.check("lateread", "").split(",")
    assert len(first) == 64 and rest == ""
    bring("books/first.bin")
    whole = render.check("lateread", "")
    assert whole.startswith(first + ",") and len(whole) == 129


def test_a_file_kept_open_is_read_by_ranges_alone():
    asked, content = [], bytes(range(100))

    def read(first: int, count: int) -> bytes:
        asked.append((first, count))
        return content[first:first + count]

    kept = json.loads(render.keep_file("big.bin", 100, "now", read))
    assert kept["message"] == "" and asked == []
    assert r"big.bin: 100 bytes from b&#39;\x00\x01\x02\x03&#39; to b&#39;`abc&#39;" in told(
        f"books=0&big={kept['reference']}", bring)[-2]["panel"]
    assert asked == [(0, 4), (96, 4)]

    def gone(first: int, count: int) -> bytes:
        raise OSError("the file was changed")

    later = json.loads(render.keep_file("big.bin", 100, "later", gone))["reference"]
    assert later != kept["reference"]
    assert told(f"books=0&big={later}", bring)[-2]["message"] == "big.bin: can no longer be read: the file was changed"
    assert "was chosen elsewhere" in told("books=0&big=upload:0123456789abcdef:x", bring)[-2]["message"]


def test_packages_are_asked_for_like_files():
    assert render.on_the_way(Needs(packages=("numpy",))) == {"type": "needs", "files": [], "packages": ["numpy"]}
    assert absent(("json", "no_such_package")) == ("no_such_package",)


def test_an_upload_is_kept_or_refused_in_words(monkeypatch):
    kept = json.loads(render.keep("a.bin", b"abc"))
    assert kept["message"] == "" and kept["reference"].startswith("upload:") and kept["reference"].endswith(":a.bin")
    assert "a.bin: 3 bytes" in told(f"books=0&own={kept['reference']}", bring)[-2]["panel"]
    monkeypatch.setattr("pycore.cache.UPLOAD_LIMIT_BYTES", 2)
    refused = json.loads(render.keep("a.bin", b"abc"))
    assert refused["reference"] == "" and "a.bin: has 3 bytes" in refused["message"]
