"""Everything Python that a page needs, in one zip that lies on the worker's sys.path: no package manager at start."""

import importlib.util
import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

EPOCH = (1980, 1, 1, 0, 0, 0)
DATASETS = ("catalog", "serving-profiles", "llm-serving-traces", "tokenizers", "token-atlas-benchmark",
            "quantbench-pareto")
"""What the core reads, as pyproject.toml puts it into the wheel."""
TEXTS = {".py", ".j2", ".json", ".csv", ".jsonl", ".txt"}


def app_zip(root: Path, studios: dict[str, Path]) -> bytes:
    """The zip's bytes, the same for the same sources: names sorted, dates fixed. `studios`: name -> folder."""
    entries: dict[str, bytes] = {}
    for name, path in members(root, studios):
        entries[name] = path.read_bytes()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            file.writestr(info, entries[name])
    return out.getvalue()


def members(root: Path, studios: dict[str, Path]) -> Iterator[tuple[str, Path]]:
    """(name in the zip, file) of the core, its tables where the wheel has them too, the studios and Jinja2."""
    yield from below(root / "pycore", "pycore", skip=("pycore/cli/",))
    for dataset in DATASETS:
        yield from below(root / "data" / dataset, f"pycore/data/{dataset}")
    for path in (root / "studios").glob("*.py"):
        yield f"studios/{path.name}", path
    for name, folder in studios.items():
        yield from below(folder, f"studios/{name}")
    yield from below(root / "site" / "templates", "site/templates")
    for package in ("jinja2", "markupsafe"):  # without MarkupSafe's compiled part: it falls back to its own Python
        yield from below(installed(package), package)


def below(folder: Path, prefix: str, skip: tuple[str, ...] = ()) -> Iterator[tuple[str, Path]]:
    """Text files under a folder, named from `prefix`."""
    for path in folder.rglob("*"):
        name = f"{prefix}/{path.relative_to(folder).as_posix()}"
        if path.is_file() and path.suffix in TEXTS and "__pycache__" not in path.parts and not name.startswith(skip):
            yield name, path


def installed(package: str) -> Path:
    """Folder of an installed package."""
    return Path(importlib.util.find_spec(package).origin).parent


def on_path(root: Path, studios: dict[str, Path]) -> None:
    """Make `pycore` and `studios` importable here as they will be in the zip, studios that lie elsewhere included."""
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    import studios as package

    for folder in studios.values():
        if str(folder.parent) not in package.__path__:
            package.__path__.append(str(folder.parent))
