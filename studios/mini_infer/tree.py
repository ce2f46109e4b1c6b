"""The prefix cache as an indented tree: a line a run of blocks, a square a block, its tokens beside it."""

from dataclasses import dataclass

from pycore.scenes.film import Frame, TreeNode
from studios.explain import help_field, plain

LINE, INDENT, WIDE, HIGH = 38, 30, 26, 20  # pixels
MOST_SQUARES, MOST_NODES, TEXT_LIMIT = 8, 60, 76
MARKS = {"": "", "new": "fresh", "hit": "hit", "split": "split"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """One cached block."""

    block: int = help_field("its number")
    x: int = help_field("left edge, pixels")
    middle: int = help_field("its middle, pixels")
    style: str = help_field("'shared', 'held' or 'cached'")
    link: str = help_field("what it is lit with")
    title: str = help_field("in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A run of cached blocks without a fork in between."""

    top: int = help_field("upper edge of its squares, pixels")
    y: int = help_field("middle of its line, pixels")
    elbow: str = help_field("path from the node above, or ''")
    squares: tuple[Square, ...] = help_field("its blocks")
    text_x: int = help_field("left edge of its text, pixels")
    text: str = help_field("its tokens")
    more: str = help_field("how many blocks and holders, and what this frame did to it")
    style: str = help_field("'fresh', 'hit', 'split' or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The tree of a frame."""

    nodes: tuple[Node, ...] = help_field("from top to bottom, children below their parents")
    height: int = help_field("pixels")
    says: str = help_field("the tree in words")
    note: str = help_field("what is not drawn, or ''")


def tree(frame: Frame) -> Tree:
    """The tree of a frame."""
    ordered = frame.tree
    rows = {one.id: number for number, one in enumerate(ordered)}
    nodes = tuple(node(one, rows) for one in ordered[:MOST_NODES])
    blocks = sum(len(one.blocks) for one in ordered)
    held = sum(count > 0 for one in ordered for count in one.references)
    return Tree(nodes=nodes, height=LINE * len(nodes) + 4,
                says=f"{blocks:,} block{'s' * (blocks != 1)} in {len(ordered):,} run{'s' * (len(ordered) != 1)}, "
                     f"{held:,} of them held by somebody",
                note=f"{len(ordered) - MOST_NODES:,} more runs are not drawn" if len(ordered) > MOST_NODES else "")


def node(one: TreeNode, rows: dict[int, int]) -> Node:
    """One line of the drawing."""
    y, x = LINE * rows[one.id] + LINE // 2, 4 + INDENT * min(one.depth, 12)
    squares = tuple(square(block, count, x + (WIDE + 3) * at)
                    for at, (block, count) in enumerate(list(zip(one.blocks, one.references, strict=True))[:MOST_SQUARES]))
    above = None if one.parent is None or one.parent not in rows else LINE * rows[one.parent] + LINE // 2
    elbow = "" if above is None else f"M{x - INDENT + WIDE // 2} {above + HIGH // 2}V{y}H{x}"
    return Node(top=y - HIGH // 2, y=y, elbow=elbow, squares=squares, style=MARKS[one.mark], more=more(one),
                text=plain(" ".join(one.tokens), TEXT_LIMIT), text_x=x + (WIDE + 3) * len(squares) + 5)


def square(block: int, count: int, x: int) -> Square:
    """One block with so many holders."""
    held = f"held by {count}" if count else "free, its content kept"
    return Square(block=block, x=x, middle=x + WIDE // 2, style="shared" if count > 1 else "held" if count else "cached",
                  link=f"b{block}", title=f"Block {block}: {held}")


def more(one: TreeNode) -> str:
    """'3 blocks, held by 2; found in this frame'."""
    holders = max(one.references, default=0)
    held = f"held by {holders}" if holders else "nobody holds it"
    did = {"new": "; entered in this frame", "hit": "; found in this frame", "split": "; split in this frame"}
    return f"{len(one.blocks)} block{'' if len(one.blocks) == 1 else 's'}, {held}{did.get(one.mark, '')}"

