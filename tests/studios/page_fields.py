"""What holds of every page: its fields are documented and read, its charts have places. For the tests of each studio."""

import dataclasses
import json
import re
from typing import Any, get_args, get_type_hints


class Seen:
    """A dataclass that notes which of its fields are read."""

    def __init__(self, value: Any, log: set[tuple[str, str]]) -> None:
        self._value, self._log = value, log

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._value, name)
        self._log.add((type(self._value).__name__, name))
        return watched(value, self._log)


def watched(value: Any, log: set[tuple[str, str]]) -> Any:
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith("studios."):
        return Seen(value, log)
    if type(value) is tuple:
        return tuple(watched(item, log) for item in value)
    return value


def documented(cls: type, names: set[tuple[str, str]] | None = None) -> set[tuple[str, str]]:
    """(class, field) of a dataclass and of all dataclasses of this package below it."""
    names = set() if names is None else names
    for field in dataclasses.fields(cls):
        assert field.metadata.get("help"), f"{cls.__name__}.{field.name} has no help"
        names.add((cls.__name__, field.name))
    for hint in get_type_hints(cls).values():
        for below in classes(hint):
            if (below.__name__, dataclasses.fields(below)[0].name) not in names:
                documented(below, names)
    return names


def classes(hint: Any) -> list[type]:
    if dataclasses.is_dataclass(hint) and hint.__module__.startswith("studios."):
        return [hint]
    return [cls for part in get_args(hint) for cls in classes(part)]


def assert_sound(last: dict) -> None:
    """An answer's panel has a place for every chart and no other, no id twice, and no figure in a chart is none."""
    assert last["type"] == "answer"
    for chart in last["charts"]:
        assert last["panel"].count(f'data-chart="{chart}"') == 1
    assert len(re.findall(r'data-chart="', last["panel"])) == len(last["charts"])
    ids = re.findall(r'(?<![-\w])id="([^"]+)"', last["panel"])
    assert len(ids) == len(set(ids)), sorted({one for one in ids if ids.count(one) > 1})
    assert not re.search(r"(?<![\w.])(nan|inf)(?![\w-])", json.dumps(last["charts"]))
