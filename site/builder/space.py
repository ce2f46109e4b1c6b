"""A studio as a whole Hugging Face static Space: one folder that can be pushed as it is."""

from builder.cache import BuildError
from builder.pages import Painted

LIMIT_BYTES = 10_000_000
"""A Space takes larger files only through LFS."""


def card(painted: Painted) -> str:
    """README.md of the Space: its settings, then what it is."""
    return f"""---
title: {painted.view.TITLE}
emoji: 📐
colorFrom: blue
colorTo: gray
sdk: static
app_file: index.html
pinned: false
short_description: {painted.view.SENTENCE[:60]}
custom_headers:
  cross-origin-embedder-policy: require-corp
  cross-origin-opener-policy: same-origin
  cross-origin-resource-policy: cross-origin
---

# {painted.view.TITLE}

{painted.view.SENTENCE}. The page answers in your browser: it loads nothing from outside this Space, and everything that
it computes is Python you can read under `source/`.
"""


def within_limit(files: dict[str, bytes]) -> None:
    """Raises BuildError where a file is too large for a Space without LFS."""
    large = {name: len(data) for name, data in files.items() if len(data) >= LIMIT_BYTES}
    if large:
        raise BuildError(f"too large for a Space (under {LIMIT_BYTES:,} bytes each): {large}")
