"""The same bytes everywhere: every example of every studio, in Pyodide and in CPython; the wheel in a bare Pyodide."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

from builder import node
from builder.effects import Record
from builder.snapshot import SCRIPT, snapshot
from builder.vendor import vendored
from builder.wheel import wheel

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "../source/{path}.html#L{line}"
REFUSED = ("limit=many", "nosuchfield=1")


def questions(studios: dict[str, Path]) -> list[dict]:
    """Every example of every studio as an "ask", its files as a "take", and questions that are refused."""
    from studios import render

    asked = []
    for name in studios:
        for example in render.examples(name):
            asked += [
                {"type": kind, "id": len(asked), "studio": name, "form": example["query"], "source": SOURCE}
                for kind in ("ask", "take")
            ]
        asked += [{"type": "ask", "id": len(asked), "studio": name, "form": form, "source": SOURCE} for form in REFUSED]
    return asked


def test_every_example_gives_the_same_bytes(wasm, tmp_path):
    from studios import render

    asked = questions(wasm.studios)
    (tmp_path / "questions.json").write_text(json.dumps(asked))
    packages = sorted({name for studio in wasm.studios for name in render.studio(studio).PACKAGES})
    there = json.loads(wasm.run("answers", wasm.app, tmp_path / "questions.json", wasm.later, ",".join(packages)))
    here = in_a_fresh_python(wasm.studios, tmp_path / "questions.json")
    different = [
        f"{message['studio']} {message['type']} {message['form']!r}: {first_difference(ours, theirs)}"
        for message, ours, theirs in zip(asked, here, there, strict=True)
        if ours != theirs
    ]
    assert not different, "\n".join(different)
    kinds = {json.loads(text)["type"] for replies in there for text in replies}
    assert {"answer", "files", "invalid", "complete"} <= kinds and "broken" not in kinds


ANSWER = """
import json, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from builder.pack import on_path
on_path(Path({root!r}), {{name: Path(folder) for name, folder in {studios!r}.items()}})
from studios import render
print(json.dumps([list(render.respond(json.dumps(message))) for message in json.loads(Path({file!r}).read_text())]))
"""


def in_a_fresh_python(studios: dict[str, Path], file: Path) -> list[list[str]]:
    """The replies of a CPython that has kept nothing yet, as the other one has not."""
    code = ANSWER.format(
        paths=[str(ROOT), str(ROOT / "site")], root=str(ROOT), file=str(file),
        studios={name: str(folder) for name, folder in studios.items()},
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def first_difference(here: list[str], there: list[str]) -> str:
    """Where two lists of replies part, with what stands around it."""
    for left, right in zip(here, there, strict=False):
        if left != right:
            place = next(i for i, (a, b) in enumerate(zip(left + "\0", right + "\0", strict=False)) if a != b)
            return f"CPython ...{left[max(0, place - 80) : place + 80]}... Pyodide ...{right[max(0, place - 80) : place + 80]}..."
    return f"{len(here)} replies here, {len(there)} there"


BARE = """
import json
import sys
import pycore
from pycore.systems.infersize import Query, answer
terms = {term.name: term.value for term in answer(Query(model="qwen2.5-7b", context=4096)).terms}
result = json.dumps({"version": pycore.__version__, "file": pycore.__file__, "terms": terms,
                     "heavy": sorted({"numpy", "jinja2", "click", "rich"} & set(sys.modules))})
"""


def test_the_wheel_in_a_bare_pyodide_gives_a_working_core(wasm, tmp_path):
    name, data = wheel(ROOT)
    (tmp_path / name).write_bytes(data)
    (tmp_path / "bare.py").write_text(BARE)
    there = json.loads(wasm.run("wheel", tmp_path / name, tmp_path / "bare.py"))
    here: dict = {}
    exec(BARE, here)  # the same lines, here
    assert there["terms"] == json.loads(here["result"])["terms"] and len(there["terms"]) > 20
    assert "site-packages" in there["file"] and there["heavy"] == []


def test_snapshot_boots_in_a_quarter_of_the_time(wasm, tmp_path, capsys):
    """Both boots until the application is imported, in the same run, best of two each."""
    patterns = {name: SOURCE for name in wasm.studios}
    taken = snapshot(Record(), vendored(Record()), wasm.app.read_bytes(), patterns)
    memory = tmp_path / "memory"
    memory.write_bytes(gzip.decompress(taken.packed))

    def seconds(*extra: str) -> float:
        runs = [
            json.loads(node.run(SCRIPT, "boot", str(wasm.runtime), str(wasm.app), json.dumps(patterns), *extra))
            for _ in range(2)
        ]
        assert all(run["digests"] == taken.digests for run in runs)
        return min(run["seconds"] for run in runs)

    plain, quick = seconds(), seconds(str(memory))
    with capsys.disabled():
        print(
            f"\nsnapshot boot with the application imported: {plain / quick:.1f} times sooner than a plain boot (Node)"
        )
    assert quick <= plain / 4


def test_first_difference_finds_it():
    """The helper above is what a failure will be read by."""
    assert "1" in first_difference(["ab1"], ["ab2"]) and "2" in first_difference(["ab1"], ["ab2"])
    assert first_difference(["a"], ["a", "b"]) == "1 replies here, 2 there"
