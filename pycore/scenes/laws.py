"""Laws that hold in every frame of a right engine, checked against what is really there. One function a law."""

import functools
from typing import TYPE_CHECKING

from pycore.scenes.film import Invariant
from pycore.scenes.toy import Cell
from pycore.scenes.words import blocks as numbered
from pycore.scenes.words import counted
from pycore.serving.prefix import Key, chain
from pycore.serving.sequence import Sequence

if TYPE_CHECKING:
    from pycore.scenes.camera import Moment
    from pycore.scenes.stage import Stage

CONSERVED, COUNTED, TOKENS, POSITIONS = "No block is lost", "References are counted", "Tokens read back", "Positions run on"
ALONE, QUERY, KEYS = "Writers are alone", "Every query has a token", "Keys tell the truth"
TREE = "Nobody holds a block without its prefix"


def laws(stage: "Stage", moment: "Moment") -> tuple[Invariant, ...]:
    """All of them, in the order of the page."""
    live = [sequence for sequence in stage.scheduler.sequences.values() if sequence.block_table]
    stage.read_back += sum(sequence.computed for sequence in live)
    read = {sequence.id: cells(stage, sequence) for sequence in live}
    return (conserved(stage), references(stage, live), tokens(stage, live, read), positions(live, read), alone(moment),
            query(moment), keys(stage), tree(stage), *stage.extra)


def said(name: str, law: str, fault: str, figures: str) -> Invariant:
    return Invariant(name=name, law=law, holds=not fault, says=fault or figures)


def conserved(stage: "Stage") -> Invariant:
    """Each block once: in the free queue, or held."""
    pool = stage.scheduler.pool
    used = sum(1 for count in pool.references if count)
    cached = sum(1 for block in pool.queue if block in pool.cache.by_block)
    blank = len(pool.queue) - cached
    figures = f"{used} held + {cached} cached + {blank} blank = {used + cached + blank}"
    both = [block for block in pool.queue if pool.references[block]]
    fault = f"{numbered(both).capitalize()} both held and free" if both else (
        "" if used + cached + blank == pool.total else f"{figures}, but the pool has {pool.total}")
    return said(CONSERVED, "held + cached + blank = blocks of the pool", fault, f"{figures}, all of the pool")


def references(stage: "Stage", live: list[Sequence]) -> Invariant:
    """A block's count of references is the number of tables it stands in."""
    pool = stage.scheduler.pool
    held = [0] * len(pool.references)
    for sequence in live:
        for block in sequence.block_table:
            held[block] += 1
    wrong = [block for block, count in enumerate(held) if count != pool.references[block]]
    fault = "" if not wrong else (f"Block {wrong[0]} stands in {counted(held[wrong[0]], 'table')} and counts "
                                  f"{counted(pool.references[wrong[0]], 'reference')}")
    return said(COUNTED, "references of a block = tables that it stands in", fault,
                f"{counted(sum(held), 'place')} in {counted(len(live), 'table')} counted again")


def tokens(stage: "Stage", live: list[Sequence], held: dict[str, list[Cell | None]]) -> Invariant:
    """What a table's blocks hold is its sequence's own text."""
    read, fault = 0, ""
    words, size = stage.vocabulary.words, stage.toy.block_size
    for sequence in live:
        text = stage.said[sequence.id].tokens[:sequence.computed]
        found = [cell[0] if cell else None for cell in held[sequence.id]]
        read += len(found)
        if found != text and not fault:
            at = next(at for at, (one, other) in enumerate(zip(found, text, strict=False)) if one != other)
            there = "nothing" if found[at] is None else f"'{words[found[at]]}'"
            fault = (f"{sequence.id} reads {there} at position {at} (block {sequence.block_table[at // size]}); "
                     f"its text says '{words[text[at]]}'")
    return said(TOKENS, "what is read through a block table = the sequence's own tokens", fault,
                f"{counted(read, 'token')} read through {counted(len(live), 'table')}")


def positions(live: list[Sequence], held: dict[str, list[Cell | None]]) -> Invariant:
    """The cell at place n of a text was computed at position n."""
    fault, longest = "", 0
    for sequence in live:
        found = [cell[1] if cell else None for cell in held[sequence.id]]
        if found != list(range(len(found))) and not fault:
            wrong = [at for at, position in enumerate(found) if position not in (at, None)]
            fault = f"{sequence.id}'s token {wrong[0]} was computed at position {found[wrong[0]]}" if wrong else ""
        longest = max(longest, sequence.computed)
    return said(POSITIONS, "positions of a text are 0, 1, 2, ... without a gap", fault,
                f"the longest text runs to position {longest - 1}" if longest else "no text in the pool")


def cells(stage: "Stage", sequence: Sequence) -> list[Cell | None]:
    """What a sequence's table holds up to where it has come, in order."""
    found: list[Cell | None] = []
    for block in sequence.block_table:
        found += stage.toy.cells[block]
    return found[:sequence.computed]


def alone(moment: "Moment") -> Invariant:
    """Who writes into a block is its only holder."""
    shared = [one for one in moment.wrote if one[2] != 1]
    fault = f"{shared[0][0]} wrote into block {shared[0][1]}, which has {counted(shared[0][2], 'holder')}" if shared else ""
    return said(ALONE, "a block that is written has one holder", fault,
                f"{counted(len(moment.wrote), 'block')} written" if moment.wrote else "nothing was written")


def query(moment: "Moment") -> Invariant:
    """Logits come from a token that was computed in this very step."""
    empty = [one.sequence for one in moment.work if one.count < 1]
    fault = f"{empty[0]} computes no token, and yet one is to come out" if empty else ""
    total = counted(sum(one.count for one in moment.work), "token")
    return said(QUERY, "each sequence of a step computes at least one token", fault,
                f"{total} of {counted(len(moment.work), 'sequence')} computed" if moment.work else "nothing was computed")


def keys(stage: "Stage") -> Invariant:
    """The key of a cached block is the hash of what it holds, and of what stands before it."""
    full: dict[int, Key] = {}
    checked, fault = 0, ""
    for node in stage.scheduler.pool.cache.nodes.values():  # parents were entered before their children
        if isinstance(node.key, tuple):
            full[node.block] = node.key  # numbered, not hashed: only its own sequence finds it
            continue
        held = tuple([cell[0] if cell else -1 for cell in stage.toy.cells[node.block]])
        full[node.block] = hashed(None if node.parent is None else full[node.parent.block], held)
        if stage.shorten(full[node.block]) != node.key:
            fault = fault or f"Block {node.block} holds other tokens than the key by which it is found says"
        checked += 1
    return said(KEYS, "key of a cached block = hash(key of the block before, its tokens)", fault,
                f"{counted(checked, 'cached block')} hashed again")


def tree(stage: "Stage") -> Invariant:
    """Whoever holds a cached block holds those before it too, so that leaves alone are ever evicted."""
    pool = stage.scheduler.pool
    nodes = pool.cache.nodes.values()
    loose = [node for node in nodes if node.parent is not None and (
        pool.cache.by_block.get(node.parent.block) is not node.parent
        or pool.references[node.block] > pool.references[node.parent.block])]
    fault = f"Block {loose[0].block} has more holders than block {loose[0].parent.block} before it" if loose else ""
    return said(TREE, "holders of a cached block <= holders of the one before it", fault,
                f"{counted(len(nodes), 'cached block')} in place")


@functools.lru_cache(maxsize=4096)
def hashed(parent: Key | None, held: tuple[int, ...]) -> int:
    """`chain`, kept: a film asks the same of each frame."""
    return chain(parent, held)
