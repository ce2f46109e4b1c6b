"""Pyodide in Node: the runtime's folder, the application's zip, and a function that runs tests/wasm/pyodide.mjs."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "site"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from builder import node  # noqa: E402
from builder.effects import Record  # noqa: E402
from builder.pack import app_zip, on_path  # noqa: E402
from builder.pages import studios_in  # noqa: E402
from builder.site import bring  # noqa: E402
from builder.snapshot import runtime_folder  # noqa: E402
from builder.vendor import vendored  # noqa: E402

FIXTURES = ROOT / "tests" / "browser" / "fixtures"


@dataclass(frozen=True, kw_only=True)
class Wasm:
    """Where things are, and `run(mode, *arguments)` -> what the script prints."""

    runtime: Path
    app: Path
    studios: dict[str, Path]
    later: Path  # JSON: name -> file, of all that the studios' answers may need
    run: Callable[..., str]


@pytest.fixture(scope="session")
def wasm(tmp_path_factory: pytest.TempPathFactory) -> Wasm:
    folder = tmp_path_factory.mktemp("wasm")
    files = vendored(Record())
    runtime = runtime_folder(files, folder / "runtime")
    for name, path in files.items():
        if name.endswith(".whl"):
            (runtime / name).write_bytes(path.read_bytes())
    studios = studios_in(ROOT, (FIXTURES / "slowcount", FIXTURES / "lateread"))
    on_path(ROOT, studios)
    app = folder / "app.zip"
    app.write_bytes(app_zip(ROOT, studios))
    later = folder / "later.json"
    later.write_text(json.dumps({file: str(path) for name in studios for file, path in bring(Record(), name).items()}))
    script = Path(__file__).with_name("pyodide.mjs")
    return Wasm(
        runtime=runtime,
        app=app,
        studios=studios,
        later=later,
        run=lambda mode, *arguments: node.run(script, mode, str(runtime), *map(str, arguments)),
    )
