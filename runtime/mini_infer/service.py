"""The engine as a service: it steps in a thread of its own (worker.py), asyncio asks and reads.

Only the thread touches the engine. What is asked goes to it by a queue and is taken between two steps; what comes out of
a step comes back to the event loop in one call. So the loop is free while a step computes, and an abort waits for one step
at most.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from math import ceil

from pycore.errors import InputError
from runtime.mini_infer.answers import Answer, Ask, Full, Unavailable, Watcher
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.usage import Statistics
from runtime.mini_infer.words import Words
from runtime.mini_infer.worker import Worker

LONGEST_WAIT_S = 60
REMEMBERED = 32  # requests whose durations say how long a refused one had better wait


class Service:
    """An engine, its words, and everybody who is served. Made and used on one event loop.

    `queue` is how many texts may wait beyond the engine's seats. From `seed` those without a seed of their own take theirs,
    in order of arrival; None: each draws its own. Raises InputError for a negative queue.
    """

    def __init__(self, engine: Engine, words: Words, *, name: str = "model", queue: int = 256,
                 seed: int | None = None, watcher: Watcher | None = None):
        if queue < 0:
            raise InputError("queue", queue, "at least 0")
        self.words, self.name, self.queue = words, name, queue
        limits, self.reach = engine.scheduler.limits, engine.scheduler.reach
        self.seats, self.longest = limits.max_sequences, limits.max_model_length
        self.vocabulary = engine.model.configuration.vocabulary
        self.worker = Worker(engine, words, watcher or Watcher(), seed)
        self.draining = False
        self.under_way = 0
        self._durations: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def statistics(self) -> Statistics:
        """How the engine stood after its last step."""
        return self.worker.statistics

    @property
    def trouble(self) -> str:
        """Why nobody is served; '' while all is well."""
        return self.worker.broken or ("it is shutting down" if self.draining else "")

    def start(self) -> None:
        """Start the engine's thread; from the loop that will be served."""
        self.worker.start(asyncio.get_running_loop())

    async def submit(self, asks: Sequence[Ask]) -> Answer:
        """Ask for texts, all of them or none. Raises Full, Unavailable, and InputError for what can never run."""
        if self.trouble:
            raise Unavailable(self.trouble)
        answer = Answer(asks, drop=self.worker.abort, left=self._left)
        self._admit(answer.count)
        self.under_way += answer.count
        self.worker.enter(answer)
        try:
            await answer.accepted
        except asyncio.CancelledError:  # who asked has gone
            self.worker.abort(answer)
            raise
        return answer

    def _admit(self, count: int) -> None:
        """Raise Full where there is no place for so many texts, InputError where there will never be."""
        places = self.seats + self.queue
        if count > places:
            raise InputError("n", count, f"at most {places} texts at a time, seats and queue together")
        if self.under_way + count > places:
            raise Full(max(0, self.under_way - self.seats), self.wait_s())

    def wait_s(self) -> int:
        """Whole seconds until those who wait now may have had their turn: recent durations, for each round of seats."""
        usual = sum(self._durations) / len(self._durations) if self._durations else 1.0
        return min(LONGEST_WAIT_S, max(1, ceil(usual * (1 + (self.under_way - self.seats) / self.seats) / 2)))

    def _left(self, seconds: float | None) -> None:
        self.under_way -= 1
        if seconds is not None:
            self._durations.append(seconds)

    def drain(self) -> None:
        """Take nobody in any more; those under way go on."""
        self.draining = True

    async def stop(self) -> None:
        """End those who are still under way ("aborted") and the thread."""
        self.draining = True
        await self.worker.stop()
