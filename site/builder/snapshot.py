"""The memory snapshot: Pyodide with the application imported and every studio's default question answered once."""

import gzip
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from builder import node
from builder.cache import BuildError, cache_folder, put
from builder.effects import Effects
from builder.vendor import digest

SCRIPT = Path(__file__).with_suffix(".mjs")
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`packed`: gzipped memory. `digests`: studio -> sha256 of its default panel as Pyodide rendered it."""

    packed: bytes
    digests: dict[str, str]


def runtime_folder(files: dict[str, Path], target: Path) -> Path:
    """A folder with Pyodide's files under their own names, as its loader wants them."""
    target.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME:
        (target / name).write_bytes(files[name].read_bytes())
    return target


def snapshot(effects: Effects, files: dict[str, Path], app: bytes, studios: dict[str, str]) -> Snapshot:
    """The snapshot for an application zip, from the cache where this very one was made before.

    `studios` maps a studio to its pattern of source links. Raises BuildError.
    """
    key = digest(json.dumps([digest(app), digest(SCRIPT.read_bytes()), studios, node.find().version[0],
                             [digest(files[name].read_bytes()) for name in RUNTIME]]).encode())
    memory, facts = cache_folder() / f"snapshot-{key[:24]}.gz", cache_folder() / f"snapshot-{key[:24]}.json"
    if not (memory.is_file() and facts.is_file()):
        effects.say("making the memory snapshot with Node, once for this state of the sources")
        forget_old()
        packed, digests = made(files, app, studios)
        put(memory, packed)
        put(facts, json.dumps(digests).encode())
    return Snapshot(packed=memory.read_bytes(), digests=json.loads(facts.read_bytes()))


def made(files: dict[str, Path], app: bytes, studios: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """(gzipped memory, digests) by running Node."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = runtime_folder(files, Path(folder) / "runtime")
        (Path(folder) / "app.zip").write_bytes(app)
        out = Path(folder) / "memory"
        text = node.run(SCRIPT, "make", str(runtime), str(Path(folder) / "app.zip"), json.dumps(studios), str(out))
        if not out.is_file():
            raise BuildError("Node made no snapshot")
        return gzip.compress(out.read_bytes(), 9, mtime=0), json.loads(text)["digests"]


def forget_old(keep: int = 5) -> None:
    """Leave the newest few snapshots in the cache."""
    found = sorted(cache_folder().glob("snapshot-*.gz"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[keep:]:
        path.unlink(missing_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)
