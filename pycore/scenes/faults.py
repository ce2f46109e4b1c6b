"""Faults that engines have really had, brought back one at a time: each a small change to one part, the rest untouched.

The scheduler is the real one throughout; a fault is a pool, a memory or a toy with one method that does what the faulty
engine did. Each has the requests on which it shows, and the law (laws.py) that it breaks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pycore.scenes import laws, script
from pycore.scenes.stage import Setting, Stage
from pycore.scenes.toy import Toy, mixed, next_token
from pycore.serving.blocks import BlockPool
from pycore.serving.memory import Memory
from pycore.serving.plan import Scheduled
from pycore.serving.prefix import chained_keys
from pycore.serving.scheduler import Scheduler
from pycore.serving.sequence import Sequence

PEER = "mini-infer 0.2.5 (PyPI), reproduced there"
SHORT_BITS = 8
SMALL = Setting(blocks=10, block_size=4, step_tokens=16, sequences=4, longest=40)
STEPS = 40  # a broken engine may never come to rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`law`: which one catches it; `seen`: who had it; `right`: what a right engine does instead."""

    name: str
    title: str
    what: str
    right: str
    seen: str
    law: str
    setting: Setting
    play: Callable[[Stage, bool], None]
    stage: Callable[[Setting], Stage]


class RestartingToy(Toy):
    """The part after a prefix hit is computed as if it were the beginning of the text."""

    def compute(self, item: Scheduled, text: list[int]) -> int | None:
        if item.decode or not item.start:
            return super().compute(item, text)
        total, state = self.total(item), 0
        for at in range(item.start, item.start + item.count):
            state = mixed(total, text[at], at - item.start)
            self.write(item, at, (text[at], at - item.start, state))
            total += state
        return next_token(state, self.seeds.get(item.sequence_id, 0)) if item.emits else None


class NeverCopies(Memory):
    """Whoever writes into a shared block writes for all."""

    __slots__ = ()

    def shares_its_next_block(self, sequence: Sequence) -> bool:
        return False


class HitsAll(Memory):
    """A prompt may be found whole, so that nothing of it is left to compute."""

    __slots__ = ()

    def hits(self, sequence: Sequence) -> list[int]:
        size = self.pool.block_size
        return self.pool.match(sequence.key(index, size) for index in range(sequence.known // size))


class NeverEvicts(BlockPool):
    """A block that the prefix cache knows is never free again."""

    __slots__ = ()

    def hold(self, block: int) -> None:
        self.references[block] += 1

    def release(self, table: Iterable[int]) -> None:
        for block in reversed(tuple(table)):
            self.references[block] -= 1
            if not self.references[block] and block not in self.cache.by_block:
                self.queue[block] = None


class FreesForAll(BlockPool):
    """Who finishes frees its blocks, whoever else holds them."""

    __slots__ = ()

    def release(self, table: Iterable[int]) -> None:
        for block in reversed(tuple(table)):
            self.references[block] = 0
            self.cached += block in self.cache.by_block and block not in self.queue
            self.queue[block] = None


def with_toy(kind: type[Toy]) -> Callable[[Setting], Stage]:
    return lambda setting: Stage(setting, toy=kind(setting.blocks, setting.block_size))


def with_memory(kind: type[Memory]) -> Callable[[Setting], Stage]:
    """A stage whose scheduler has another memory."""
    def make(setting: Setting) -> Stage:
        scheduler = setting.scheduler()
        scheduler.memory = kind(scheduler.pool, scheduler.decodes)
        return Stage(setting, scheduler=scheduler)

    return make


def with_pool(kind: type[BlockPool]) -> Callable[[Setting], Stage]:
    """A stage whose scheduler has another pool."""
    def make(setting: Setting) -> Stage:
        plain = setting.scheduler()
        pool = kind(setting.blocks, setting.block_size, prefix_caching=setting.prefix_caching)
        return Stage(setting, scheduler=Scheduler(plain.policy, pool, plain.limits))

    return make


def with_short_keys(setting: Setting) -> Stage:
    return Stage(setting, shorten=shortened)


def shortened(key: int) -> int:
    """The last bits of a key, taken for the whole."""
    return key % (1 << SHORT_BITS)


def scripted(text: str) -> Callable[[Stage, bool], None]:
    """The events of scene (a)'s language, then at most STEPS steps."""
    def play(stage: Stage, broken: bool) -> None:
        for event in script.parse(text):
            script.play(stage, event)
        stage.run(STEPS)

    return play


def colliding(stage: Stage, broken: bool) -> None:
    """Two prompts whose first blocks differ and whose short keys do not."""
    for name, words in COLLIDING:
        ids = tuple(stage.vocabulary.id(word) for word in words)
        keys = chained_keys(ids, stage.setting.block_size)
        stage.add(name, words, 4, hashes=tuple(map(shortened, keys)) if broken else None)
        stage.run(STEPS)


COLLIDING = (("A", "where is the sun so bright and good".split()), ("B", "when was the sun so long and small".split()))

FAULTS: dict[str, Fault] = {one.name: one for one in (
    Fault(name="positions-restart", title="Positions restart on a hit",
          what="After a prefix hit only the rest of the prompt is computed, and its positions are counted from 0 again.",
          right="The rest begins at the position where the hit ends.", seen=f"{PEER}: its prefix cache is on by default",
          law=laws.POSITIONS, setting=SMALL, stage=with_toy(RestartingToy), play=scripted(
              "add A 10 +4; step 6; add B 12 +5 like A 8")),
    Fault(name="no-copy-on-write", title="A shared block is overwritten",
          what="A sequence writes its next token into a block that another one reads too.",
          right="The block is copied first, and each writes into its own.",
          seen=f"{PEER}: a prefix hit wrote over the blocks of a request that was running", law=laws.ALONE, setting=SMALL,
          stage=with_memory(NeverCopies), play=scripted("add A 9 +7; step 2; fork A as B")),
    Fault(name="hash-collision", title="Two prefixes, one key",
          what=f"Blocks are found by {SHORT_BITS} bits of their hash, and nobody looks whether the tokens are the same.",
          right="128 bits of a cryptographic hash, chained over everything before the block.",
          seen="vLLM before 0.7.2 took Python's built-in hash(), whose collisions can be foreseen (CVE-2025-25183)",
          law=laws.TOKENS, setting=SMALL, stage=with_short_keys, play=colliding),
    Fault(name="empty-query", title="A full hit leaves nothing to compute",
          what="The whole prompt is found in the cache, so the step has no token of it, and no logits that are its own.",
          right="The last token of a prompt is computed in any case: its logits give the next token.",
          seen=f"{PEER}: a prompt that was cached whole got a wrong answer", law=laws.QUERY, setting=SMALL,
          stage=with_memory(HitsAll), play=scripted("add A 8 +4; step 5; add B 8 +4 like A 8")),
    Fault(name="never-evicted", title="Cached blocks are never evicted",
          what="Blocks that the prefix cache knows stay out of the free queue when nobody holds them any more.",
          right="A cached block is free to take; its content is dropped when somebody needs room.",
          seen=f"{PEER}: on its default server the fifth prompt of 4,000 tokens failed, and all after it",
          law=laws.CONSERVED, setting=replace(SMALL, blocks=6), stage=with_pool(NeverEvicts), play=scripted(
              "add A 9 +3; step 4; add B 9 +3; step 4; add C 9 +3")),
    Fault(name="freed-while-shared", title="Freed while another holds it",
          what="Who finishes gives its blocks back without a look at who else holds them.",
          right="A block is free when its last holder has gone.", seen="the classic fault of counting references by hand",
          law=laws.COUNTED, setting=replace(SMALL, blocks=8, prefix_caching=False), stage=with_pool(FreesForAll),
          play=scripted("add A 9 +6; step 2; fork A as B; step 1; abort A; add C 14 +3")),
)}
