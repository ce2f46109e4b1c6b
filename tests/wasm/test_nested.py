"""Nested JSON of a reader's own file ends as a refusal in Pyodide too, as deep as it may be: Python is alive afterwards."""

import json

READ = """
import json
from pycore.errors import ConfigError, InputError, SourceError
from pycore.config_json.text import parse
from pycore.hub.safetensors import parse_header
from pycore.pack import safetensors
from pycore.scenes import event_file
from pycore.simulation.costs.custom import read_cost
from pycore.tokens import upload

READERS = {"tokenizer": lambda text: upload.parsed(text.encode(), "t"), "cost": read_cost, "config": parse,
           "hub": lambda text: parse_header(text.encode(), "t"), "events": lambda text: list(event_file.parsed([text]))}
LIMITS = {"tokenizer": upload.DEEPEST, "cost": 8, "config": 32, "hub": 8, "events": 8}

def said(reader, text):
    try:
        return f"read {type(reader(text)).__name__}"
    except (ConfigError, InputError, SourceError) as error:
        return type(error).__name__

found = {}
for name, reader in READERS.items():
    for levels in (LIMITS[name] - 2, LIMITS[name] + 1, 10_000, 300_000):
        found[f"{name} {levels}"] = said(reader, '{"a": ' + "[" * levels + "]" * levels + "}")
result = json.dumps(found | {"alive": 1 + 1})
"""


def test_nesting_is_refused_and_python_lives_on(wasm, tmp_path):
    script = tmp_path / "read.py"
    script.write_text(READ)
    there = json.loads(wasm.run("python", wasm.app, script, wasm.later))
    here: dict = {}
    exec(READ, here)
    assert there == json.loads(here["result"]) and there["alive"] == 2 and len(there) == 21
    assert there["tokenizer 898"].startswith("read") and there["tokenizer 901"] == "InputError"
