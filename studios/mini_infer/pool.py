"""The pool and the block tables of one frame, so that each block and its places in the tables find each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from pycore.scenes.film import BlockState, Film, Frame, Table
from studios.explain import help_field, plain

NAMED, DRAWN = 240, 2000  # most blocks drawn with their numbers; most drawn at all
MOST_ROWS, MOST_SLOTS, HEAD_SLOTS = 40, 40, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One physical block."""

    id: int = help_field("its number")
    style: str = help_field("its state, and 'fresh' where this frame touched it")
    fill: str = help_field("how full it is with what counts, as a percentage")
    lost: str = help_field("what above that was computed for nothing in this frame, or ''")
    names: str = help_field("who holds it, short")
    link: str = help_field("what it is lit with: itself, then its holders")
    title: str = help_field("all of it in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One place in a block table."""

    index: int = help_field("which block of the sequence")
    block: int = help_field("the physical block there")
    style: str = help_field("'shared', 'fresh', both or ''")
    fill: str = help_field("how much of it is computed, as a percentage")
    lost: str = help_field("what after that was computed for nothing in this frame, or ''")
    link: str = help_field("what it is lit with")
    title: str = help_field("in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One sequence and its block table."""

    id: str = help_field("its name")
    link: str = help_field("what it is lit with")
    status: str = help_field("what it does, and why it waits")
    style: str = help_field("'waits', 'lost' or ''")
    tokens: str = help_field("how far it is")
    title: str = help_field("its text")
    slots: tuple[Slot, ...] = help_field("its block table")
    more: str = help_field("what of the table is not drawn, or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The picture of a frame."""

    cells: tuple[Cell, ...] = help_field("the physical blocks")
    small: bool = help_field("whether they are too many to carry their numbers")
    rows: tuple[Row, ...] = help_field("the sequences")
    note: str = help_field("what is not drawn, or ''")
    lost: bool = help_field("whether something was computed for nothing in this frame")
    counts: str = help_field("how many blocks are in which state")
    says: str = help_field("block size, pool and policy")


def pool(film: Film, frame: Frame) -> Pool:
    """The picture of a frame."""
    links = {one.sequence: f"s{number}" for number, one in enumerate(frame.tables)}
    size, drawn, gone = film.block_size, frame.blocks, rolled_back(film, frame)
    if len(drawn) > DRAWN:
        drawn = [one for one in drawn if one.state != "blank"][:DRAWN]
    fresh = frozenset(frame.touched_blocks)
    rows = tuple(row(one, links[one.sequence], size, gone, frame, fresh) for one in frame.tables[:MOST_ROWS])
    left_out = [f"{len(frame.blocks) - len(drawn):,} of the blocks are not drawn"] * (len(drawn) < len(frame.blocks))
    left_out += [f"{len(frame.tables) - MOST_ROWS:,} more sequences"] * (len(frame.tables) > MOST_ROWS)
    cells = tuple(cell(one, links, size, gone.get(one.block, 0), one.block in fresh) for one in drawn)
    return Pool(cells=cells, small=len(drawn) > NAMED, rows=rows, note="; ".join(left_out), lost=bool(gone),
                counts=counts(frame, film.blocks),
                says=f"{film.blocks:,} blocks of {size:,} tokens, {plain(film.policy, 60)}")


def rolled_back(film: Film, frame: Frame) -> dict[int, int]:
    """Slots by block that hold refused guesses: computed in this frame's step, and not kept."""
    tables = {one.sequence: one.blocks for one in frame.tables}
    found: dict[int, int] = {}
    for part in frame.work:
        if part.drafts and part.sequence in tables:
            for at in range(part.start + len(part.tokens), part.start + part.count):
                place = at // film.block_size
                if place < len(tables[part.sequence]):
                    block = tables[part.sequence][place]
                    found[block] = found.get(block, 0) + 1
    return found


def counts(frame: Frame, total: int) -> str:
    """'9 in use (2 shared), 3 cached, 4 blank'."""
    several = sum(one.state == "shared" for one in frame.blocks)
    shared = f" ({several:,} shared)" if several else ""
    return f"{frame.used:,} in use{shared}, {frame.cached:,} cached, {total - frame.used - frame.cached:,} blank"


def cell(one: BlockState, links: dict[str, str], size: int, gone: int, fresh: bool) -> Cell:
    """One block; `gone`: slots in it that hold refused guesses."""
    holders = [plain(name, 40) for name in one.holders]
    doing = {"blank": "free, blank", "cached": "free, its content kept for the next prefix that has it"}.get(
        one.state) or f"held by {' and '.join(holders)}"
    content = f", {one.filled} of {size} slots: {text(one.tokens)}" if one.filled else ""
    content += f"; {gone} of them computed for nothing" if gone else ""
    gone = min(gone, one.filled)
    return Cell(id=one.block, style=f"{one.state}{' fresh' if fresh else ''}", fill=part_of(one.filled - gone, size),
                lost=part_of(gone, size) if gone else "", names=" ".join(name[:6] for name in holders),
                title=f"Block {one.block}: {doing}{content}",
                link=" ".join([f"b{one.block}", *(links[name] for name in one.holders if name in links)]))


def part_of(count: int, size: int) -> str:
    return f"{100 * count / size:.4g}%"


def text(tokens: Sequence[str], limit: int = 140) -> str:
    return plain(" ".join(tokens), limit)


def row(table: Table, link: str, size: int, gone: dict[int, int], frame: Frame, fresh: frozenset[int]) -> Row:
    """One sequence; `fresh`: blocks that this frame touched."""
    places = list(enumerate(table.blocks))
    if len(places) > MOST_SLOTS:
        places = places[:HEAD_SLOTS] + places[HEAD_SLOTS - MOST_SLOTS:]
    slots = tuple(slot(index, frame.blocks[block], table, size, gone.get(block, 0), block in fresh)
                  for index, block in places)
    status = table.status + (f": {table.waits}" if table.waits else "")
    if table.host_blocks:
        status += f", {len(table.host_blocks)} blocks on the host"
    return Row(id=plain(table.sequence, 40), link=link, status=plain(status, 120), slots=slots, tokens=progress(table),
               style="lost" if table.sequence in frame.preempted else "waits" if table.status != "running" else "",
               title=f"{plain(table.sequence, 40)}: {text(table.tokens, 220)}",
               more=f"{len(table.blocks) - len(slots):,} more between" if len(slots) < len(table.blocks) else "")


def progress(table: Table) -> str:
    """How far a sequence is, what it was spared and what it lost."""
    said = f"{table.prompt:,} asked, {table.generated:,} of {table.target:,} generated"
    said += f", {table.cached:,} found in the cache" if table.cached else ""
    times = "once" if table.preemptions == 1 else f"{table.preemptions:,} times"
    return said + (f", preempted {times}" if table.preemptions else "")


def slot(index: int, state: BlockState, table: Table, size: int, gone: int, fresh: bool) -> Slot:
    """One place in a table, and the block there; `gone`: slots in it that hold refused guesses."""
    block, shared = state.block, state.references > 1
    filled = min(max(table.computed - index * size, 0), size)
    gone = min(gone, size - filled)
    said = f"{plain(table.sequence, 40)}, its block {index}, lies in block {block}: {filled} of {size} slots"
    said += f", shared by {state.references}" if shared else ""
    said += f", {gone} computed for nothing" if gone else ""
    return Slot(index=index, block=block, style=" ".join(["shared"] * shared + ["fresh"] * fresh), link=f"b{block}",
                fill=part_of(filled, size), lost=part_of(gone, size) if gone else "",
                title=f"{said}: {text(table.tokens[index * size:index * size + filled])}")
