"""Tokenizers as a command line names them: one of ours, or a file of one's own by its path."""

import os
from pathlib import Path

from pycore.atlas.encoders import built, encoder, from_bytes, names
from pycore.cache import UPLOAD_LIMIT_BYTES, missing
from pycore.errors import InputError, SourceError
from pycore.tokens.catalogue import file
from pycore.tokens.tokenizer import Tokenizer

ENDINGS = (".json", ".tiktoken", ".model", ".txt")


def one(name: str, field: str = "tokenizer") -> Tokenizer:
    """The tokenizer that a name or a path means. Raises UnknownName, SourceError, ConfigError."""
    if is_path(name):
        return from_file(name, field)
    try:
        return built(encoder(name, field))
    except SourceError as error:
        raise SourceError(error.source, str(error).removeprefix(f"{error.source}: "), field) from None


def several(text: str | None, field: str = "tokenizers") -> list[tuple[str, Tokenizer | SourceError]]:
    """(name, tokenizer, or why it is not here) of a list separated by commas; None: every one of ours.

    Those that are named must be here; of all, those that are. Raises UnknownName, SourceError.
    """
    if text is None or text.strip().lower() == "all":
        return here()
    listed = [part.strip() for part in text.split(",") if part.strip()]
    if not listed:
        raise InputError(field, text, "accepted: " + ", ".join(names()) + ", a path, or all")
    return [(made.name, made) for made in (one(part, field) for part in dict.fromkeys(listed))]


def here() -> list[tuple[str, Tokenizer | SourceError]]:
    """Every tokenizer of ours whose vocabulary is here, and why the others are not. Raises SourceError where none is."""
    if len(missing(tuple(map(file, names())))) == len(names()):
        raise SourceError("tokenizers", "no vocabulary is here yet; fetch them once (4 MB in all) with: token-atlas fetch, "
                                        "or one of them with: token-atlas fetch o200k_base")
    found: list[tuple[str, Tokenizer | SourceError]] = []
    for name in names():
        try:
            found.append((name, built(name)))
        except SourceError as error:
            found.append((name, error))
    return found


def is_path(name: str) -> bool:
    """Whether a name can only be meant as a file's; a list of ranks may have ':' and a tokenizer behind it."""
    return os.sep in name or "/" in name or ".tiktoken:" in name or name.lower().endswith(ENDINGS)


def from_file(path: str, field: str) -> Tokenizer:
    """A tokenizer.json or .tiktoken; of the latter 'PATH:NAME' says which tokenizer cuts the text so.

    Raises SourceError, InputError.
    """
    path, colon, pattern = path.partition(":") if ".tiktoken:" in path else (path, "", "")
    data = content(path, field)
    try:
        return from_bytes(data, Path(path).name, *([encoder(pattern, field)] if colon else []))
    except InputError as error:
        raise InputError(field, error.value, error.accepted, error.suggestions) from None


def content(path: str, field: str) -> bytes:
    """A file's bytes. Raises SourceError."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(UPLOAD_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise SourceError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}", field) from None
    if len(data) > UPLOAD_LIMIT_BYTES:
        raise SourceError(path, f"larger than {UPLOAD_LIMIT_BYTES >> 20} MiB", field)
    return data
