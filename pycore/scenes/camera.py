"""From the state of a stage to a Frame. Looks, and changes nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.scenes.film import BlockState, Frame, FrameKind, Table, Waste, Work
from pycore.scenes.laws import laws
from pycore.scenes.tree import tree_of
from pycore.scenes.words import blocks as numbered
from pycore.scenes.words import counted, listed
from pycore.serving.plan import Part, Scheduled, StepPlan
from pycore.serving.prefix import Node
from pycore.serving.sequence import Sequence

if TYPE_CHECKING:
    from pycore.scenes.stage import Stage

PRIVATE = "own"  # what is shown for a key that only its own sequence can find


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What happened just before a picture is taken. `names`: whom it touched; `wrote`: (sequence, block, holders)."""

    kind: FrameKind
    what: str
    names: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    step: int = 0
    lines: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    work: tuple[Work, ...] = ()
    plan: StepPlan | None = None
    wrote: tuple[tuple[str, int, int], ...] = ()

    @classmethod
    def of(cls, plan: StepPlan, stage: "Stage", tokens: Mapping[str, tuple[int, ...]]) -> "Moment":
        """A step that was executed and has still to complete."""
        work = works(plan, stage, tokens)
        return cls(kind="step", step=plan.step + 1, plan=plan, work=work, what=sentence(plan, work), lines=lines(plan, work),
                   tags=tags(plan, work), names=tuple(one.sequence for one in work) + plan.preempted + plan.refused,
                   wrote=stage.wrote)


def works(plan: StepPlan, stage: "Stage", tokens: Mapping[str, tuple[int, ...]]) -> tuple[Work, ...]:
    """Every sequence's part of a step."""
    parts: dict[str, Part] = {part.sequence_id: part for part in plan.parts}
    wrote: dict[str, list[int]] = {}
    for name, block, _ in stage.wrote:
        wrote.setdefault(name, []).append(block)
    return tuple(Work(sequence=item.sequence_id, start=item.start, count=item.count, decode=item.decode,
                      drafts=item.drafts,
                      hit=hit_of(item, parts.get(item.sequence_id), stage), blocks=tuple(wrote.get(item.sequence_id, ())),
                      tokens=stage.vocabulary.text(tokens.get(item.sequence_id, ()))) for item in plan.items)


def hit_of(item: Scheduled, part: Part | None, stage: "Stage") -> int:
    """Tokens that this admission found in the cache: where a part begins past 0 in the step that seated its sequence."""
    if part is None or not item.start:
        return 0
    return item.start if item.sequence_id in stage.waited else 0


def sentence(plan: StepPlan, work: tuple[Work, ...]) -> str:
    """'Step 3: A and B decode; C computes 8 prompt tokens from 4 on'."""
    decodes = [one.sequence for one in work if one.decode]
    said = [f"{listed(decodes)} {'decodes' if len(decodes) == 1 else 'decode'}"] if decodes else []
    said += [f"{one.sequence} computes {counted(one.count, 'token')}" + f" from position {one.start:,} on" * (one.start > 0)
             for one in work if not one.decode]
    return f"Step {plan.step + 1}: {'; '.join(said) or 'blocks are moved'}"


def lines(plan: StepPlan, work: tuple[Work, ...]) -> tuple[str, ...]:
    """What else a step did, a sentence each."""
    said = [f"{one.sequence} finds {counted(one.hit, 'token')} in the prefix cache and does not compute them again"
            for one in work if one.hit]
    said += [f"{one.sequence} has {counted(one.drafts, 'guess', 'guesses')} checked and keeps "
             f"{len(one.tokens) - 1}: {counted(one.drafts + 1 - len(one.tokens), 'position')} computed for nothing"
             for one in work if one.drafts]
    said += [f"Block {source} is copied to block {target} before it is written: others hold it too"
             for source, target in plan.copies]
    if plan.evicted:
        verb = "loses its" if len(plan.evicted) == 1 else "lose their"
        said.append(f"{numbered(plan.evicted).capitalize()} {verb} cached content to somebody who needs room")
    swapped = {swap.sequence_id for swap in plan.swapped_out}
    said += [f"{name} is preempted: " + ("its blocks move to the host" if name in swapped else
                                         "its blocks are freed, its tokens kept and computed again later")
             for name in plan.preempted]
    said += [f"{swap.sequence_id} comes back from the host: {counted(len(swap.device_blocks), 'block')}"
             for swap in plan.swapped_in]
    said += [f"{name} is refused" for name in plan.refused]
    return tuple(said)


def tags(plan: StepPlan, work: tuple[Work, ...]) -> tuple[str, ...]:
    """What happened in a step, in single words."""
    happened = {"prefill": any(not one.decode for one in work), "decode": any(one.decode for one in work),
                "hit": any(one.hit for one in work), "copy": plan.copies, "evict": plan.evicted, "preempt": plan.preempted,
                "swap": plan.swapped_out or plan.swapped_in, "finish": plan.finishing}
    return tuple(tag for tag, did in happened.items() if did)


class Camera:
    """Takes pictures of one stage. Block states that look the same are the same object from frame to frame, and blank
    blocks that nobody touched cost nothing: a real pool has thousands."""

    def __init__(self, stage: "Stage"):
        self.stage = stage
        self._states = [self.state(block, 0, (), None, 0) for block in range(stage.setting.blocks)]
        self._texts: dict[str, list[str]] = {}  # words of each sequence's text so far
        self._seen: dict[int, tuple] = {}  # what the states of blocks that are not blank were made of

    def shoot(self, moment: Moment, before: Frame | None) -> Frame:
        """The next frame; `before`: the one it is compared with."""
        stage, plan = self.stage, moment.plan
        scheduler, pool = stage.scheduler, stage.scheduler.pool
        live = list(scheduler.sequences.values())
        held_back = {held.sequence_id: reason(held.reason, held.blocker) for held in plan.held_back} if plan else {}
        changed, tables = self.look(live), tuple(self.table(sequence, held_back) for sequence in live)
        blocks = before.blocks if before and not changed else tuple(self._states)
        states = [self._states[block].state for block in self._seen]
        hits = {block for one in moment.work if one.hit
                for block in scheduler.sequences[one.sequence].block_table[:one.hit // pool.block_size]}
        return Frame(
            number=len(stage.frames) + 1, kind=moment.kind, step=moment.step, what=moment.what, lines=moment.lines,
            tags=moment.tags + ("finish",) * (moment.kind == "finish"), blocks=blocks,
            used=len(states) - states.count("cached"), cached=states.count("cached"), free=tuple(pool.queue), tables=tables,
            waiting=tuple(sequence.id for sequence in scheduler.waiting), work=moment.work,
            copies=plan.copies if plan else (), evicted=plan.evicted if plan else (),
            preempted=plan.preempted if plan else (), finished=moment.finished,
            touched_blocks=tuple(sorted(changed)) if before else (),
            touched_sequences=touched(tables, before.tables if before else (), moment.names),
            tree=tree_of(stage, blocks, hits, before.tree if before else ()), asked_tokens=scheduler.asked_tokens,
            hit_tokens=scheduler.hit_tokens, waste=self.waste(live), invariants=laws(stage, moment))

    def table(self, sequence: Sequence, held_back: dict[str, str]) -> Table:
        """One sequence as it stands."""
        said = self.stage.said[sequence.id]
        return Table(sequence=sequence.id, status=sequence.status, waits=held_back.get(sequence.id, ""), prompt=said.prompt,
                     computed=sequence.computed, generated=len(said.tokens) - said.prompt, target=sequence.target,
                     cached=sequence.cached_tokens, preemptions=sequence.preemptions, blocks=tuple(sequence.block_table),
                     host_blocks=tuple(sequence.host_table), tokens=self.text(sequence.id, said.tokens))

    def text(self, name: str, tokens: list[int]) -> tuple[str, ...]:
        """A text in words; only what came since the last picture is looked up."""
        words = self._texts.setdefault(name, [])
        words += self.stage.vocabulary.text(tokens[len(words):])
        return tuple(words)

    def look(self, live: Iterable[Sequence]) -> list[int]:
        """Bring the block states up to date; which of them changed. Filled slots of a block: those that one of its holders
        has written; all of a cached one."""
        pool, cells, size = self.stage.scheduler.pool, self.stage.toy.cells, self.stage.scheduler.pool.block_size
        holders: dict[int, list[str]] = {}
        filled: dict[int, int] = {}
        for sequence in live:
            for index, block in enumerate(sequence.block_table):
                holders.setdefault(block, []).append(sequence.id)
                filled[block] = max(filled.get(block, 0), min(size, reach(sequence) - index * size))
        changed = []
        for block in holders.keys() | pool.cache.by_block.keys() | self._seen.keys():
            node, held = pool.cache.by_block.get(block), tuple(holders.get(block, ()))
            count = max(0, filled.get(block, 0)) if held else size if node else 0
            seen = pool.references[block], held, node.key if node else None, tuple(cells[block][:count])
            if self._seen.get(block) != seen:
                self._states[block] = self.state(block, pool.references[block], held, node, count)
                changed.append(block)
                self._seen[block] = seen
            if not (held or node or pool.references[block]):
                del self._seen[block]
        return changed

    def state(self, block: int, references: int, held: tuple[str, ...], node: Node | None, count: int) -> BlockState:
        """One block."""
        words, cells = self.stage.vocabulary.words, self.stage.toy.cells[block][:count]
        kind = ("shared" if references > 1 else "held") if references else "cached" if node else "blank"
        return BlockState(block=block, state=kind, references=references, filled=count, holders=held,
                          key=shown_key(node.key) if node else "",
                          tokens=tuple("" if cell is None else words[cell[0]] for cell in cells))

    def waste(self, live: Iterable[Sequence]) -> Waste:
        """What the running sequences take, paged and contiguous."""
        size, longest = self.stage.scheduler.pool.block_size, self.stage.scheduler.limits.max_model_length
        running = [sequence for sequence in live if sequence.block_table]
        kept: dict[int, int] = {}
        for sequence in running:
            for index, block in enumerate(sequence.block_table):
                kept[block] = max(kept.get(block, 0), min(size, sequence.computed - index * size))
        return Waste(
            sequences=len(running), stored=sum(kept.values()), paged=size * len(kept),
            unshared=sum(sequence.computed for sequence in running), longest=longest * len(running),
            doubling=sum(1 << (sequence.known - 1).bit_length() for sequence in running),
            exact=sum(min(longest, sequence.prompt_tokens + sequence.target) for sequence in running))


def reach(sequence: Sequence) -> int:
    """Positions written for it: those computed, and guesses that are being checked."""
    return sequence.computed + sequence.drafted


def reason(why: str, blocker: str | None) -> str:
    """'no blocks, behind A'."""
    return f"{why}, behind {blocker}" if blocker else why


def shown_key(key: int | tuple[int, int]) -> str:
    """The first 8 hexadecimal digits of 128 bits, fewer of a shorter key."""
    if isinstance(key, tuple):
        return PRIVATE
    digits = f"{key:x}"
    return f"{key:032x}"[:8] if len(digits) > 8 else digits


def touched(now: tuple[Table, ...], before: tuple[Table, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Sequences that are not as they were, those gone included."""
    old = {table.sequence: table for table in before}
    changed = [table.sequence for table in now if old.pop(table.sequence, None) != table]
    return tuple(dict.fromkeys((*names, *changed, *old)))
