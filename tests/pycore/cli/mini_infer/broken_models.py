"""Folders of models with one thing wrong."""

import json
import shutil
import struct
from pathlib import Path


def broken(model: Path, place: Path, name: str, change) -> Path:
    """A copy of the model with one file changed (or gone)."""
    shutil.copytree(model, place)
    data = (place / name).read_bytes()
    (place / name).unlink()
    if (new := change(data)) is not None:
        (place / name).write_bytes(new)
    return place


def edited(**changes):
    return lambda data: json.dumps({name: one for name, one in (json.loads(data) | changes).items() if one != "gone"}).encode()


def longer_header(data: bytes) -> bytes:
    return struct.pack("<Q", 1 << 60) + data[8:]
