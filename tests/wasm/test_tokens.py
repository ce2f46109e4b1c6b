"""Hard strings, drawn and fixed, are the same tokens in Pyodide as in CPython, whatever Unicode each Python has."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "pycore" / "tokens"))

from fuzz import cases  # noqa: E402

TEXTS = cases(700, seed=14)[::3] + cases(60, seed=15)[-60:]
READ = """
import json
from pycore.atlas.encoders import built, names
from pycore.tokens.graphemes import starts

def read(tokenizer, text):
    made = tokenizer.encode(text)
    return [made.ids, made.offsets, [piece.hex() for piece in made.pieces], tokenizer.count(text), len(tokenizer.ids(text, specials=True))]

found = {name: [read(built(name), text) for text in texts] for name in names()}
result = json.dumps(found | {"clusters": [starts(text) for text in texts]})
"""


def test_every_tokenizer_gives_the_same_tokens(wasm, tmp_path):
    assert len(TEXTS) > 500
    script = tmp_path / "read.py"
    script.write_text(f"import json\ntexts = json.loads({json.dumps(json.dumps(TEXTS))})\n{READ}")
    there = json.loads(wasm.run("python", wasm.app, script, wasm.later))
    here: dict = {}
    exec(script.read_text(), here)  # the same lines, here
    mine = json.loads(here["result"])
    assert len(mine) == 8 and mine.keys() == there.keys()
    different = [
        (name, text, ours, theirs)
        for name in mine
        for text, ours, theirs in zip(TEXTS, mine[name], there[name], strict=True)
        if ours != theirs
    ]
    assert not different, different[:3]
