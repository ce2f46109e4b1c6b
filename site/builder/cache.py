"""Where downloads and other slow results are kept, and the one error of the build."""

import os
import tempfile
from pathlib import Path


class BuildError(Exception):
    """The build cannot go on; the message says what to do. Shown without a traceback."""


def cache_folder() -> Path:
    """$INFERENCE_STUDIOS_CACHE, else ~/.cache/inference-studios: outside the tree, shared by every clone."""
    chosen = os.environ.get("INFERENCE_STUDIOS_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else base / "inference-studios"


def put(path: Path, data: bytes) -> None:
    """Write a cached file whole or not at all: another build may be reading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(data)
    os.replace(part.name, path)
