"""The prefix cache as a radix tree: blocks that follow one another without a fork are drawn as one node.

The cache itself keeps one node a block, found by a hash that is chained over all blocks before it: a radix tree whose
edges are one block long. So it never splits an edge; where a prompt leaves an older one's path, the picture does.
"""

from typing import TYPE_CHECKING

from pycore.scenes.film import BlockState, Mark, TreeNode
from pycore.serving.prefix import Node

if TYPE_CHECKING:
    from pycore.scenes.stage import Stage


def tree_of(stage: "Stage", blocks: tuple[BlockState, ...], hits: set[int], before: tuple[TreeNode, ...],
            ) -> tuple[TreeNode, ...]:
    """The tree from top to bottom: every node right after its parent and its elder siblings' families, elder in the order in
    which blocks were entered. Not recursive: a tree may be deep."""
    cache = stage.scheduler.pool.cache
    below: dict[int | None, list[Node]] = {}
    for node in cache.nodes.values():
        below.setdefault(None if node.parent is None else node.parent.block, []).append(node)
    old = {node.id: node for node in before}
    known = {block for node in before for block in node.blocks}
    found: list[TreeNode] = []
    todo: list[tuple[Node, int | None, int]] = [(node, None, 0) for node in reversed(below.get(None, []))]
    while todo:
        first, parent, depth = todo.pop()
        chain = [first]
        while len(children := below.get(chain[-1].block, [])) == 1:
            chain.append(children[0])
        numbers = tuple(node.block for node in chain)
        found.append(TreeNode(
            id=first.block, parent=parent, depth=depth, blocks=numbers, children=len(children),
            references=tuple(blocks[number].references for number in numbers),
            tokens=tuple(token for number in numbers for token in blocks[number].tokens),
            mark=mark(numbers, hits, known, old.get(first.block), len(children))))
        todo += [(node, first.block, depth + 1) for node in reversed(children)]
    return tuple(found)


def mark(numbers: tuple[int, ...], hits: set[int], known: set[int], old: TreeNode | None, children: int) -> Mark:
    """What this frame did to a node."""
    if old is not None and children > 1 and len(old.blocks) > len(numbers) and old.blocks[:len(numbers)] == numbers:
        return "split"
    if any(number in hits for number in numbers):
        return "hit"
    return "new" if any(number not in known for number in numbers) else ""
