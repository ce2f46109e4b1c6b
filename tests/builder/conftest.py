"""The build's parts, imported as build.py does."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "site"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture
def slowcount() -> dict[str, Path]:
    """The studio made for tests, importable."""
    from builder.pack import on_path

    folders = {"slowcount": ROOT / "tests" / "browser" / "fixtures" / "slowcount"}
    on_path(ROOT, folders)
    return folders
