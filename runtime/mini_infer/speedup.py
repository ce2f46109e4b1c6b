"""What guesses save on this machine: the same requests with them and without, in turn, on one model and in one memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

from pycore.errors import InputError
from pycore.serving.blocks import BlockPool
from pycore.serving.scheduler import Scheduler
from runtime.mini_infer.batch import Asked
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.generation import Generation
from runtime.mini_infer.words import Words

MOST_RUNS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to run the requests: texts by id, seconds of each run, steps of the engine, and what was guessed."""

    texts: dict[str, tuple[int, ...]]
    seconds: tuple[float, ...]
    steps: int
    drafted: int
    accepted: int
    wasted: int

    @property
    def tokens(self) -> int:
        """Tokens that came out, in all texts."""
        return sum(len(text) for text in self.texts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """Both ways. Times are compared by their medians."""

    plain: Way
    guessed: Way

    @property
    def times(self) -> float:
        """How many times as fast the guessing run made its tokens."""
        plain, guessed = self.plain, self.guessed
        return (guessed.tokens / median(guessed.seconds)) / (plain.tokens / median(plain.seconds))

    @property
    def acceptance(self) -> float | None:
        """Share of the guesses that became text; None without a guess."""
        return self.guessed.accepted / self.guessed.drafted if self.guessed.drafted else None

    @property
    def first_difference(self) -> tuple[str, int] | None:
        """(id, place of the token) where a text first differs; None where all are the same, as greedy ones should be."""
        for name, text in self.plain.texts.items():
            other = self.guessed.texts[name]
            if text != other:
                places = zip(text, other, strict=False)
                return name, next((at for at, (one, two) in enumerate(places) if one != two), min(len(text), len(other)))
        return None


def measured(engine: Engine, requests: Sequence[Generation], *, runs: int = 3,
             told: Callable[[int], object] = lambda run: None) -> Speedup:
    """Run requests with an engine's speculation and without it, turn by turn, each time from an empty pool; once each
    beforehand, uncounted. `told` is called before each pair of runs. Sampled requests need seeds to say the same again.

    Raises InputError for an engine that is at work or does not guess, and for a request that it cannot run.
    """
    if engine.speculation is None:
        raise InputError("draft", "none", "accepted: a way to guess, to be compared with none")
    if not engine.idle:
        raise InputError("engine", "at work", "one that nobody waits for")
    if not 1 <= runs <= MOST_RUNS:
        raise InputError("runs", runs, f"from 1 to {MOST_RUNS}")
    ways: dict[bool, list[tuple[Engine, float, dict[str, tuple[int, ...]]]]] = {False: [], True: []}
    for run in range(runs + 1):
        told(run)
        for guesses in (False, True) if run % 2 else (True, False):
            ways[guesses].append(_run(again(engine, guesses=guesses), requests))
    return Speedup(plain=_way(ways[False]), guessed=_way(ways[True]))


def refuse_stops(stops: Sequence[str]) -> None:
    """Raise InputError where there are any: they remember what they saw, and the same is asked again and again."""
    if stops:
        raise InputError("stop", stops[0], "accepted: no stop strings where runs are compared")


def requests(engine: Engine, words: Words, asked: Sequence[Asked]) -> tuple[Generation, ...]:
    """What is asked, to be run again and again: without stop strings, and with seeds.

    Raises InputError.
    """
    found = []
    for index, one in enumerate(asked):
        refuse_stops(one.stops)
        ids, sampling = one.ids(words), one.sampling
        seeded = replace(sampling, seed=index if sampling.seed is None else sampling.seed)
        most = one.most(engine.scheduler.reach - len(ids))
        found.append(Generation(id=str(index), prompt=ids, max_tokens=most, min_tokens=one.min_tokens, end=words.end,
                                ignore_end=one.ignore_end, sampling=seeded, samples=one.samples))
    return tuple(found)


def again(engine: Engine, *, guesses: bool) -> Engine:
    """An engine like this one with a new, empty pool in the same memory; only one of the two may run."""
    old, speculation = engine.scheduler, engine.speculation if guesses else None
    pool = BlockPool(len(old.pool.references), old.pool.block_size, prefix_caching=old.pool.prefix_caching,
                     null_block=old.pool.total < len(old.pool.references))
    limits = replace(old.limits, draft_tokens=speculation.tokens if speculation else 0)
    host = old.memory.host
    scheduler = Scheduler(old.policy, pool, limits, preemption="swap" if host else "recompute",
                          host_blocks=host.total if host else 0, block_bytes=old.memory.block_bytes)
    draft_cache = getattr(engine.drafter, "cache", None) if guesses else None
    return Engine(engine.model, scheduler, cache=engine.cache, speculation=speculation, draft_cache=draft_cache,
                  clock=engine.clock)


def _run(engine: Engine, requests: Sequence[Generation]) -> tuple[Engine, float, dict[str, tuple[int, ...]]]:
    for one in requests:
        engine.add(one)
    texts: dict[str, list[int]] = {name: [] for one in requests for name in one.ids()}
    began = perf_counter()
    while not engine.idle:
        for output in engine.step():
            if output.choice is not None:
                texts[output.id].append(output.choice.token)
    return engine, perf_counter() - began, {name: tuple(text) for name, text in texts.items()}


def _way(runs: Sequence[tuple[Engine, float, dict[str, tuple[int, ...]]]]) -> Way:
    engine, _, texts = runs[-1]
    now = engine.statistics()
    return Way(texts=texts, seconds=tuple(seconds for _, seconds, _ in runs[1:]), steps=now.steps, drafted=now.drafted,
               accepted=now.accepted, wasted=now.wasted)
