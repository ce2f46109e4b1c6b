"""JSON text of a config.json to plain values, refusing what cannot be trusted. Messages are the same on every Python.

Refused: what is not JSON, a name given twice, and nesting deeper than any real config. NaN and Infinity, which
published configs do hold, are read as they are: a field that a sizing reads refuses them by its name.
"""

import json

from pycore.errors import ConfigError
from pycore.nesting import deeper

DEPTH_LIMIT = 32


def parse(text: str) -> dict:
    """The object in the text. Raises ConfigError with line and column."""
    text = text.removeprefix("\ufeff")  # a byte order mark, as some editors write
    if deeper(text, DEPTH_LIMIT):
        raise ConfigError(f"nested deeper than {DEPTH_LIMIT} levels: no model configuration is")
    try:
        config = json.loads(text, object_pairs_hook=without_repeats)
    except json.JSONDecodeError as error:
        raise ConfigError(f"not JSON: {place(text, error.pos)}") from None
    except ValueError:  # a whole number longer than Python is willing to read
        raise ConfigError("a number has too many digits") from None
    if not isinstance(config, dict):
        raise ConfigError("not a model configuration: the text must be a JSON object, { ... }")
    return config


def without_repeats(pairs: list[tuple[str, object]]) -> dict:
    """A JSON object whose names differ; a second one could hide the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise ConfigError(f"{shown(twice)} is given twice")
    return found


def place(text: str, position: int) -> str:
    """'line 3, column 7, at "..."'. A comma before a closing bracket is named itself, as newer Pythons do."""
    before = text[:position].rstrip()
    if text[position:position + 1] in ("}", "]") and before.endswith(","):
        position = len(before) - 1
    line, start = text.count("\n", 0, position) + 1, text.rfind("\n", 0, position) + 1
    rest = text[position:].split("\n")[0][:20]
    return f"line {line}, column {position - start + 1}" + (f", at {rest!r}" if rest else ", at the end of the text")


def shown(value: object) -> str:
    """A value as it is quoted in a message, cut to a readable length."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
