"""The prefix cache: a radix tree whose nodes are full blocks, found by chained keys.

A key stands for the whole prefix up to and including its block (`chain`), so one look-up a block walks the tree, and two
sequences share a block only when everything before it is equal too. Partial blocks are never shared: a block enters the
tree when its last token has been computed. Only leaves are evicted. The pool's free queue gives that order by itself:
whoever holds a block holds its parents, and a table is released last block first, so a child always stands before its
parent in the queue; `evict` refuses anything else.

Keys do not depend on PYTHONHASHSEED: they are integers (given, or 128 bits of BLAKE2b) or tuples of integers.
"""

from collections.abc import Iterable
from hashlib import blake2b

Key = int | tuple[int, int]
DIGEST_BYTES = 16


def chain(parent: Key | None, tokens: tuple[int, ...]) -> int:
    """Key of a full block: BLAKE2b-128 over the parent's key and the block's token ids, in decimal."""
    return int.from_bytes(blake2b(f"{parent}|{tokens}".encode(), digest_size=DIGEST_BYTES).digest(), "big")


def chained_keys(token_ids: tuple[int, ...], block_size: int) -> tuple[int, ...]:
    """Keys of all full blocks of a sequence of token ids (the last, partial block has none)."""
    keys, parent = [], None
    for end in range(block_size, len(token_ids) + 1, block_size):
        parent = chain(parent, tuple(token_ids[end - block_size:end]))
        keys.append(parent)
    return tuple(keys)


class Node:
    """One cached block: `children` counts the cached blocks that continue it."""

    __slots__ = ("key", "block", "parent", "children")

    def __init__(self, key: Key, block: int, parent: "Node | None"):
        self.key, self.block, self.parent, self.children = key, block, parent, 0


class PrefixCache:
    """Which block holds which prefix. Knows nothing of references or of the free queue: that is the pool's."""

    __slots__ = ("nodes", "by_block")

    def __init__(self) -> None:
        self.nodes: dict[Key, Node] = {}
        self.by_block: dict[int, Node] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def match(self, keys: Iterable[Key]) -> list[int]:
        """Blocks of the longest cached prefix."""
        nodes, found = self.nodes, []
        for key in keys:
            node = nodes.get(key)
            if node is None:
                break
            found.append(node.block)
        return found

    def block_of(self, key: Key) -> int | None:
        node = self.nodes.get(key)
        return None if node is None else node.block

    def insert(self, key: Key, block: int, parent_block: int | None) -> None:
        """Enter a full block below its parent. The parent must be cached, the key and the block must not be."""
        parent = None if parent_block is None else self.by_block[parent_block]
        node = Node(key, block, parent)
        if parent is not None:
            parent.children += 1
        self.nodes[key] = self.by_block[block] = node

    def evict(self, block: int) -> bool:
        """Forget what a block holds; False when it held nothing that can be found. Raises for a block with children."""
        node = self.by_block.get(block)
        if node is None:
            return False
        if node.children:
            raise AssertionError(f"block {block} is evicted before {node.children} that continue it")
        del self.nodes[node.key], self.by_block[block]
        if node.parent is not None:
            node.parent.children -= 1
        return True

    def check(self) -> None:
        """Every node is reachable, and every count of children is right. Raises AssertionError."""
        children: dict[int, int] = {}
        for key, node in self.nodes.items():
            assert node.key == key and self.by_block.get(node.block) is node, f"block {node.block} is not its node's"
            if node.parent is not None:
                assert self.nodes.get(node.parent.key) is node.parent, f"block {node.block} lost its parent"
                children[node.parent.block] = children.get(node.parent.block, 0) + 1
        assert len(self.by_block) == len(self.nodes), "a block without a node"
        for node in self.nodes.values():
            assert node.children == children.get(node.block, 0), f"block {node.block} miscounts its children"
