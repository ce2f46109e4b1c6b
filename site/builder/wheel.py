"""The project's pure wheel, made by the project's own build backend in a copy of what it packs."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from builder.cache import BuildError
from builder.pack import DATASETS

PARTS = ("pyproject.toml", "README.md", "pycore", "runtime", *(f"data/{name}" for name in DATASETS))


def wheel(root: Path) -> tuple[str, bytes]:
    """(file name, bytes), the same for the same sources. Raises BuildError with the backend's words."""
    with tempfile.TemporaryDirectory() as folder:
        copy, out = Path(folder) / "tree", Path(folder) / "out"
        for part in PARTS:
            take(root / part, copy / part)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--no-build-isolation", "--wheel-dir", str(out), str(copy)]
        result = subprocess.run(command, capture_output=True, text=True, check=False,
                                env=os.environ | {"SOURCE_DATE_EPOCH": "315532800"})
        if result.returncode:
            raise BuildError(f"the wheel could not be built: {' '.join(command)}\n{result.stderr.strip()[-1500:]}")
        made = next(out.glob("*.whl"))
        return made.name, made.read_bytes()


def take(source: Path, target: Path) -> None:
    """Copy a file or a folder, caches left out."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.is_file():
        shutil.copy2(source, target)
