"""Files that do not travel with the code: where they are kept, and how a computation says that it needs one.

A file has a name such as "vocabularies/llama3.bpe", a path below the cache folder. Here a command fetches it; in a
browser the worker does, when `Needs` asks for it, and puts it in the very same place of its own file system.
"""

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pycore.errors import InputError, SourceError

UPLOADS = "uploads"
UPLOAD_LIMIT_BYTES = 64 << 20
REFERENCE = re.compile(r"upload:([0-9a-f]{16})(?::(.*))?", re.DOTALL)
Reader = Callable[[int, int], bytes]  # (first byte, count) -> bytes; fewer where the file ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Yielded by a generator of steps before it reads files that are not there (`missing`), or imports what is not.

    Whoever drives the generator brings them and goes on; who cannot goes on as well, and reading then fails in words.
    """

    files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()  # importable names, "numpy": a browser's worker loads them after the start


def cache_folder() -> Path:
    """$INFERENCE_STUDIOS_CACHE, else inference-studios in the user's cache folder: shared by every checkout."""
    chosen = os.environ.get("INFERENCE_STUDIOS_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else base / "inference-studios"


def place(name: str) -> Path:
    """Where a file of this name is kept."""
    return cache_folder() / name


def missing(names: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Those of the names that are not there."""
    return tuple(name for name in names if not place(name).is_file())


def absent(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the packages that cannot be imported (yet).

    In a browser a package is there once the worker has imported it: before that it may be half unpacked.
    """
    if sys.platform == "emscripten":
        return tuple(name for name in packages if name not in sys.modules)
    return tuple(name for name in packages if importlib.util.find_spec(name) is None)


def put(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: somebody else may be reading. Raises SourceError where it cannot be written."""
    import tempfile  # slow to import, and a page writes seldom

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
            try:
                part.write(data)
                part.flush()
            except OSError:
                Path(part.name).unlink()
                raise
        os.replace(part.name, path)
    except OSError as error:
        raise SourceError(str(path), f"cannot be written: {error.strerror or error}; INFERENCE_STUDIOS_CACHE names another "
                                     "folder") from None


def keep_upload(name: str, data: bytes) -> str:
    """Keep a reader's own file under its hash; the reference that a question names it by: "upload:HASH:NAME".

    Raises SourceError where it is larger than 64 MiB.
    """
    if len(data) > UPLOAD_LIMIT_BYTES:
        raise SourceError(name, f"has {len(data):,} bytes; accepted: at most {UPLOAD_LIMIT_BYTES >> 20} MiB")
    key = hashlib.sha256(data).hexdigest()[:16]
    put(place(f"{UPLOADS}/{key}"), data)
    return f"upload:{key}:{name[-80:]}"


def is_upload(text: str) -> bool:
    """Whether a field's text is a reference that `keep_upload` gave."""
    return REFERENCE.fullmatch(text) is not None


def upload(field: str, reference: str) -> tuple[str, bytes]:
    """(name, bytes) of an uploaded file. Raises InputError where the text is no reference, or one from elsewhere."""
    name, size, read = opened(field, reference)
    if size > UPLOAD_LIMIT_BYTES:
        raise InputError(field, name, f"accepted: at most {UPLOAD_LIMIT_BYTES >> 20} MiB")
    return name, read(0, size)


def keep_open(name: str, size: int, read: Reader, mark: str = "") -> str:
    """Keep a way to read a reader's own file of any size by ranges, unread; the reference that a question names it by.

    `mark` tells two files of one name and size apart (when it was changed, say).
    """
    key = hashlib.sha256(f"{name}\0{size}\0{mark}".encode("utf-8", "replace")).hexdigest()[:16]
    _open[key] = size, read
    return f"upload:{key}:{name[-80:]}"


_open: dict[str, tuple[int, Reader]] = {}


def opened(field: str, reference: str) -> tuple[str, int, Reader]:
    """(name, bytes in all, reader of a range) of a reader's own file, kept whole or kept open.

    Raises InputError where the text is no reference, or one from elsewhere.
    """
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise InputError(field, reference, "accepted: a file chosen here")
    name, path = match[2] or match[1], place(f"{UPLOADS}/{match[1]}")
    if match[1] in _open:
        return name, *_open[match[1]]
    if not path.is_file():
        raise InputError(field, name, "this file was chosen elsewhere and is not part of the address; choose it again")

    def read(first: int, count: int) -> bytes:
        with path.open("rb") as file:
            file.seek(first)
            return file.read(count)

    return name, path.stat().st_size, read
