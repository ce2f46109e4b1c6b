"""Links to other frames and scenes that keep the rest of the question, and choices among them."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pycore.knobs import as_text, changed
from studios.explain import help_field

TYPED, SHORT = ("script", "prompts"), 300
"""Fields that links repeat only where they are short: the page keeps them (`data-also`), an address need not be long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several links."""

    text: str = help_field("its name")
    more: str = help_field("what it is, or ''")
    href: str = help_field("the question with it chosen")
    chosen: bool = help_field("whether it is the one on the page")


def also(query: Any, **changes: Any) -> str:
    """A link that changes fields; the others stay as they are. A reader's own file is in no link."""
    kept = {name: value for name, value in changed(query).items() if name not in changes and name != "events"
            and not (name in TYPED and len(value) > SHORT)}
    return "?" + "&".join(f"{name}={quote(as_text(value), safe='/:,.-_~')}" for name, value in (kept | changes).items())
