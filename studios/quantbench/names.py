"""Links that keep the rest of the question, numbers as this page writes them, and parts kept while others change."""

import functools
import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any
from urllib.parse import quote

from pycore.knobs import as_text, changed
from pycore.units import significant

TYPED = ("values", "edits", "file", "bit")
"""Fields that links do not repeat: what was typed may be long, and stays where it is (`data-also`)."""
ROLES = {"code": "codes", "scale": "scales", "zero": "zeros", "metadata": "metadata", "padding": "padding"}


def also(query: Any, **changes: Any) -> str:
    """A link that changes fields; the others stay as they are."""
    assert changes.keys() <= names_of(type(query)), changes.keys() - names_of(type(query))
    said = "&".join(f"{name}={written(value)}" for name, value in changes.items())
    return f"?{rest_of(query, *changes)}{said}"


@functools.cache
def names_of(question: type) -> frozenset[str]:
    """The fields of a question."""
    return frozenset(field.name for field in fields(question))


@functools.lru_cache(maxsize=256)
def rest_of(query: Any, *replaced: str) -> str:
    """The changed fields of a question but for those typed and those `replaced`: 'format=nf4&', or ''."""
    return "".join(f"{name}={written(value)}&" for name, value in changed(query).items()
                   if name not in TYPED and name not in replaced)


def written(value: Any) -> str:
    """A field's value as it stands in a URL."""
    return quote(as_text(value), safe="/:,.-_~")


def figure(value: float | None, digits: int = 3, unit: str = "") -> str:
    """A number as it is written here, '–' where there is none; never more than 4 digits of what was summed."""
    if value is None or value != value:
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return significant(value, digits).replace("-", "−") + (f" {unit}" if unit else "")


def perplexity(value: float | None, digits: int = 4) -> str:
    """A perplexity; of a ruined model, whose digits say nothing, the power of ten: '3.2e8'."""
    if value is None or not 1e5 <= value < math.inf:
        return figure(value, digits)
    return scientific(f"{value:.2g}", value).replace("e+", "e")


def small(value: float, digits: int = 4) -> str:
    """A weight: 0.01234, −0.5, 1.2e−7, nan, inf."""
    if not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "−inf"
    if value == 0:
        return "0"
    return scientific(f"{value:.{digits}g}", value).replace("-", "−")


def plain_number(value: float) -> str:
    """The same as a control takes it, short: '-0.0123', '-1.2e-7'."""
    return "0" if value == 0 else scientific(f"{value:.3g}", value)


def scientific(text: str, value: float) -> str:
    """A short writing of a number whose digits begin late: '1.44e-4' instead of '0.000144'."""
    if abs(value) < 1e-3 and "e" not in text:
        digits = len(text.lstrip("-0.").replace(".", ""))
        text = f"{value:.{max(digits - 1, 0)}e}"
    return text.replace("e-0", "e-").replace("e+0", "e")


class Held:
    """The last result of each part, remade when a part of its key is another object (texts and numbers: another value)."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple, Any]] = {}

    def get(self, name: str, key: tuple, make: Callable[[], Any]) -> Any:
        """`make()`, or what it gave the last time for this very key."""
        before = self._last.get(name)
        if before is None or len(before[0]) != len(key) or not all(map(same, before[0], key)):
            before = self._last[name] = key, make()
        return before[1]


def same(left: Any, right: Any) -> bool:
    """Whether two parts of a key are one."""
    plain = isinstance(left, str | int | float | bool) and type(left) is type(right)
    return left == right if plain else left is right
