"""Questions as links: the present question with some fields changed."""

from typing import Any
from urllib.parse import quote

from pycore.knobs import as_text, changed, knobs

NOT_CARRIED = ("engine_log",)  # a log belongs to the run it was printed by, not to a changed question
MOST, MOST_OF_MANY = 8000, 250  # characters of the unchanged part: a pasted config.json must not flood the page


class Links:
    """Links to changed questions. Pieces are kept, since a matrix has thousands of them."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self._defaults = {knob.name: knob.default for knob in knobs(query)}
        self._bases: dict[tuple[str, ...], str] = {}
        self._pairs: dict[tuple[str, Any], str] = {}

    def to(self, changes: dict[str, Any], *, many: bool = False) -> str:
        """The link, or '' where the question is too long to be repeated (`many`: in every cell of a table)."""
        base = self._base(tuple(changes))
        if len(base) > (MOST_OF_MANY if many else MOST):
            return ""
        return (base + "".join(map(self._pair, changes.items())))[:-1] or "?"

    def _base(self, names: tuple[str, ...]) -> str:
        base = self._bases.get(names)
        if base is None:
            kept = {name: value for name, value in changed(self._query).items() if name not in (*names, *NOT_CARRIED)}
            base = self._bases[names] = "?" + "".join(f"{name}={written(value)}&" for name, value in kept.items())
        return base

    def _pair(self, item: tuple[str, Any]) -> str:
        pair = self._pairs.get(item)
        if pair is None:
            name, value = item
            pair = self._pairs[item] = "" if value == self._defaults[name] else f"{name}={written(value)}&"
        return pair


def written(value: Any) -> str:
    """A field's value as it stands in a URL."""
    return quote(as_text(value), safe="/:,.-_~")
