"""Packed vocabularies that are at hand: in the cache folder here, in the same folder of the worker's memory in a page."""

from pycore.cache import missing, place
from pycore.errors import SourceError
from pycore.tokens.catalogue import file
from pycore.tokens.packed import unpack
from pycore.tokens.vocabulary import Vocabulary


def load(name: str) -> Vocabulary:
    """The vocabulary of a tokenizer, unpacked anew at each call (a tenth of a second; keep what is built from it).

    Raises UnknownName; SourceError where it is not at hand, with the command that fetches it, or is damaged.
    """
    path = place(file(name))
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SourceError(name, f"its vocabulary is not here ({path}); fetch it once with: token-atlas fetch {name}",
                          "tokenizers") from None
    except OSError as error:
        raise SourceError(name, f"its vocabulary cannot be read: {error.strerror or error} ({path})", "tokenizers") from None
    try:
        found = unpack(data, name)
    except SourceError:
        found = None
    if found is None or found.name != name:  # an interrupted copy, or another's file under this name
        raise SourceError(name, f"its vocabulary is damaged ({path}); fetch it again with: token-atlas fetch {name}",
                          "tokenizers")
    return found


def absent(names: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Files of the tokenizers that are not at hand, for `pycore.cache.Needs`. Raises UnknownName."""
    return missing([file(name) for name in names])
