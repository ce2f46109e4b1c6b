"""A weight of 64k moved by hand, in Pyodide: until registers and every format are anew, against the 100 ms aimed at.

Beside it, in the same run and taking turns, the same weights rounded whole (what a changed seed needs), and the methods that follow.
"""

import json
import tempfile
from pathlib import Path

from tests.bench import browser

AIM_MS = 100
FORMATS = ("int4", "q4_k", "q6_k", "nvfp4", "sparse-2:4")
SCRIPT = '''
import json
from js import process
from studios import render

def now():
    """Milliseconds of processor time: other programs share the machine."""
    used = process.cpuUsage()
    return (used.user + used.system) / 1000

def until(form):
    """(ms until the first answer, ms until the last)"""
    start, found = now(), []
    for reply in render.replies("quantbench", form, ""):
        if reply["type"] == "answer":
            found.append(now() - start)
        assert reply["type"] not in ("invalid", "broken"), reply
    return found[0], found[-1]

rows = {}
for name in FORMATS:
    base = f"format={name}&rows=256&columns=256"
    until(base + "&edits=7=0.01")
    moved = [until(f"{base}&edits=7={0.011 + turn / 1000:.3f}") for turn in range(12)]
    anew = [until(f"{base}&seed={2 + turn}") for turn in range(3)]
    rows[name] = {"moved": [one for one, _ in moved], "whole": [one for _, one in moved], "anew": [one for one, _ in anew]}
result = json.dumps(rows)
'''


def main() -> None:
    """Print the ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runtime, app = browser.runtime_and_app(folder)
        script = folder / "live.py"
        script.write_text(f"FORMATS = {FORMATS!r}\n{SCRIPT}")
        (folder / "later.json").write_text("{}")
        rows = json.loads(browser.node.run(browser.ROOT / "tests" / "wasm" / "pyodide.mjs", "python", str(runtime), str(app),
                                           str(script), str(folder / "later.json"), "numpy"))
    print("\na weight of 64k moved, in Pyodide (Node): share of the 100 ms aimed at, of processor time")
    print(f"{'format':<12}{'best':>8}{'median':>8}{'methods too':>13}{'all rows anew':>15}")
    for name, found in rows.items():
        moved, whole, anew = (sorted(found[key]) for key in ("moved", "whole", "anew"))
        print(f"{name:<12}{moved[0] / AIM_MS:>8.2f}{moved[len(moved) // 2] / AIM_MS:>8.2f}{whole[0] / AIM_MS:>13.2f}"
              f"{anew[0] / AIM_MS:>15.2f}")
