"""The page: a re-rendered panel in Pyodide, snapshot against plain boot in one run, and an edit in Chromium."""

import gzip
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "site", ROOT / "tests" / "browser"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from builder import node  # noqa: E402
from builder.effects import Folder, Record  # noqa: E402
from builder.pack import app_zip, on_path  # noqa: E402
from builder.pages import studios_in  # noqa: E402
from builder.server import address, server  # noqa: E402
from builder.site import Options, build  # noqa: E402
from builder.snapshot import SCRIPT, runtime_folder, snapshot  # noqa: E402
from builder.vendor import vendored  # noqa: E402
from setup_browser import find  # noqa: E402

EDITS = tuple(f"context={4096 + 256 * index}&sequences={1 + index % 32}" for index in range(30))
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


def in_pyodide(folder: Path, studio: str) -> None:
    """Re-render and boot times in Node's Pyodide."""
    files, studios = vendored(Record()), studios_in(ROOT, ())
    runtime, app = runtime_and_app(folder)
    asked = [{"type": "ask", "id": index, "studio": studio, "form": form, "source": ""} for index, form in enumerate(EDITS)]
    (folder / "asked.json").write_text(json.dumps(asked))
    times = json.loads(node.run(Path(__file__).with_name("rerender.mjs"), str(runtime), str(app), str(folder / "asked.json")))
    first, last = (statistics.median(column) for column in zip(*times[5:], strict=True))
    print(f"\nchanged question in Pyodide (Node): first panel {first:.0f} ms, with the matrix {last:.0f} ms at the median "
          "(target: panel under 50 ms)")
    patterns = {name: "" for name in studios}
    taken = snapshot(Record(), files, app.read_bytes(), patterns)
    (folder / "memory").write_bytes(gzip.decompress(taken.packed))
    boots = {"plain": [], "snapshot": []}
    for _ in range(3):
        for kind, extra in (("plain", ()), ("snapshot", (str(folder / "memory"),))):
            out = node.run(SCRIPT, "boot", str(runtime), str(app), json.dumps(patterns), *extra)
            boots[kind].append(json.loads(out)["seconds"])
    ratio = statistics.median(boots["snapshot"]) / statistics.median(boots["plain"])
    print(f"snapshot boot takes {ratio:.2f} of the plain boot in the same run (target: at most 0.25)")


def runtime_and_app(folder: Path) -> tuple[Path, Path]:
    """Pyodide's folder with its packages, and the application's zip."""
    files = vendored(Record())
    runtime = runtime_folder(files, folder / "runtime")
    for name, path in files.items():
        if name.endswith(".whl"):
            (runtime / name).write_bytes(path.read_bytes())
    studios = studios_in(ROOT, ())
    on_path(ROOT, studios)
    app = folder / "app.zip"
    app.write_bytes(app_zip(ROOT, studios))
    return runtime, app


def in_chromium(folder: Path, studio: str) -> None:
    """Milliseconds from a typed edit to the changed panel."""
    from playwright.sync_api import sync_playwright

    build(Options(root=ROOT, only=studio), Folder(folder / "dist"))
    running = server(folder / "dist", 0)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=FLAGS)
        page = browser.new_context(bypass_csp=True).new_page()
        page.goto(f"{address(running)}{studio}/")
        page.locator("html[data-state=ready]").wait_for(state="attached", timeout=90_000)
        page.evaluate(WATCH)
        times = []
        for index in range(25):
            page.evaluate("value => edit(value)", str(4096 + 256 * index))
            times.append(page.evaluate("() => changed"))
            time.sleep(0.05)
        browser.close()
    running.shutdown()
    print(f"edit to changed panel in Chromium: {statistics.median(times[5:]):.0f} ms at the median "
          f"(target: under 150 ms; the page waits a moment for more typing, which is part of it)")


WATCH = """() => {
  const panel = document.querySelector("#panel"), field = document.querySelector("[name=context]");
  window.edit = (value) => {
    const start = performance.now();
    window.changed = new Promise((done) => new MutationObserver((_, watcher) => {
      watcher.disconnect(); done(performance.now() - start);
    }).observe(panel, { subtree: true, childList: true, characterData: true, attributes: true }));
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  };
}"""


def main() -> None:
    """Both, for infersize."""
    with tempfile.TemporaryDirectory() as folder:
        in_pyodide(Path(folder), "infersize")
        in_chromium(Path(folder), "infersize")
