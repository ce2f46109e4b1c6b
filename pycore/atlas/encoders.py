"""The tokenizers that can be run, by the names people use for them; each is built once and kept."""

import functools

from pycore.atlas.table import tokenizers
from pycore.errors import InputError, UnknownName
from pycore.matching import Names
from pycore.tokens.catalogue import origins
from pycore.tokens.shelf import load
from pycore.tokens.tokenizer import Tokenizer, build
from pycore.tokens.upload import from_tiktoken, from_tokenizer_json

ALSO = {"o200k_base": ("o200k", "gpt-4o", "gpt-4.1", "gpt-5", "gpt-oss"), "cl100k_base": ("cl100k", "gpt-4", "gpt-3.5"),
        "llama3": ("llama-3.1", "llama-3.2", "llama-3.3"), "qwen2.5": ("qwen", "qwen3"), "gemma3": ("gemma",),
        "deepseek-v3": ("deepseek", "deepseek-r1"), "claude-legacy": ("claude-1", "claude-2")}
"""Models and short names that mean a tokenizer. Nothing is called just "claude": of newer ones only counts are known."""


@functools.cache
def spellings() -> Names:
    """What can be typed for each tokenizer."""
    return Names({one.name: (one.name, *ALSO.get(one.name, ())) for one in origins()})


def names() -> tuple[str, ...]:
    """Every tokenizer that can be run."""
    return tuple(one.name for one in origins())


def encoder(text: str, field: str = "tokenizer") -> str:
    """The exact name of a tokenizer that can be run. Raises UnknownName, InputError where only its counts are known."""
    found = spellings().exact(text)
    if len(found) == 1:
        return found[0]
    if any(one.name == text.strip() for one in tokenizers() if not one.exact):
        raise InputError(field, text, "of this one only counts are known, no tokens; the matrix has them. Accepted: "
                         + ", ".join(names()))
    raise UnknownName(field, text, "accepted: " + ", ".join(names()), spellings().nearest(text))


def encoders(text: str, field: str = "tokenizers") -> tuple[str, ...]:
    """Exact names from a list separated by commas; all = every one. Raises UnknownName, InputError."""
    listed = [part.strip() for part in text.split(",") if part.strip()]
    if [part.lower() for part in listed] == ["all"]:
        return names()
    return tuple(dict.fromkeys(encoder(part, field) for part in listed))


@functools.cache
def built(name: str) -> Tokenizer:
    """The tokenizer of an exact name, unpacked once. Raises SourceError where its vocabulary is not at hand."""
    return build(load(name))


def from_bytes(data: bytes, name: str, pattern: str = "o200k_base") -> Tokenizer:
    """A reader's own tokenizer: a tokenizer.json, or a list of ranks as tiktoken has them.

    Ranks do not say how a text is cut first: `pattern` names the tokenizer that cuts so.
    Raises InputError saying what is missing, or of a kind that is not understood.
    """
    if data.lstrip()[:1] in (b"{", b"["):
        return from_tokenizer_json(data, name)
    return from_tiktoken(data, name, pattern)
