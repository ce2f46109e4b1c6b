"""Merge trees as nested boxes: the token at the root, under each box the two parts it was merged from, down to bytes."""

import functools
from typing import Any

from markupsafe import Markup

from studios.token_atlas.pieces import alone


@functools.lru_cache(maxsize=32)
def tree_html(roots: tuple[Any, ...]) -> Markup:
    """The trees of a word, one a token."""
    return Markup("".join(map(box, roots)))


def box(node: Any) -> str:
    """A node with what it was merged from; the number is the merge's place in the order in which they were made."""
    title = f' title="{node.id}"' if node.id is not None else ""
    below = f'<span class="parts">{"".join(map(box, node.parts))}</span>' if node.parts else ""
    order = f"<sub>{node.order}</sub>" if node.order else ""
    return f'<span class="node"><b{title}>{named(node.piece)}{order}</b>{below}</span>'


def named(piece: bytes) -> str:
    """Letters where the bytes are whole ones, else the bytes."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return f"<u>{piece.hex(' ')}</u>"
    return alone(text)
