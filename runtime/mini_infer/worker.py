"""The thread that owns the engine: takes what is asked between steps, steps, and hands out what came."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from random import Random

from pycore.serving.plan import StepPlan
from runtime.mini_infer.answers import Answer, Ask, Piece, Unavailable, Watcher
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.generation import Generation, Output
from runtime.mini_infer.under_way import Sample
from runtime.mini_infer.usage import Statistics
from runtime.mini_infer.words import Words

HELD_BACK_S = 0.002  # how long to wait where the policy lets nobody run just now


class Worker:
    """The thread and what it holds. `enter`, `abort` and `stop` are called from the event loop, the rest from the thread."""

    def __init__(self, engine: Engine, words: Words, watcher: Watcher, seed: int | None = None):
        self.engine, self.words, self.watcher = engine, words, watcher
        self._dice = None if seed is None else Random(seed)
        self.statistics: Statistics = engine.statistics()
        self.broken = ""
        self._orders: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._samples: dict[str, Sample] = {}
        self._names: dict[Answer, set[str]] = {}
        self._news: list[Callable[[], None]] = []  # for the loop, in order
        self._serial = 0
        self._plan: StepPlan | None = None
        self._ending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # From the loop ----------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread; what comes out goes to this loop."""
        self._loop = loop
        self._thread.start()

    def enter(self, answer: Answer) -> None:
        """Let the texts of an answer in; its future `accepted` tells. Its times count from here."""
        answer.asked_ns = self.engine.clock()
        self._orders.put(lambda: self._enter(answer))

    def abort(self, answer: Answer) -> None:
        """Drop what is left of an answer."""
        self._orders.put(lambda: self._abort(answer))

    async def stop(self) -> None:
        """End everybody and the thread."""
        if self._thread.is_alive():
            self._orders.put(self._end)
            await asyncio.to_thread(self._thread.join)

    # In the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending:
            try:
                self._obey()
                if not (self._ending or self.broken or self.engine.idle):
                    self._step()
                self.statistics = self.engine.statistics()
            except Exception as error:  # a fault of this program: nobody may wait for ever because of it
                self._break(f"the engine has failed: {type(error).__name__}: {error}")
            self._publish()

    def _obey(self) -> None:
        """All orders that are there; waits for one where there is nothing else to do."""
        if (self.engine.idle or self.broken) and not self._news:
            self._orders.get()()
        while not self._ending and not self._orders.empty():
            self._orders.get()()

    def _step(self) -> None:
        outputs = self.engine.step()
        now, plan = self.engine.clock(), self.engine.last_plan
        if plan is not self._plan:
            self._plan = plan
            self.watcher.step(plan.tokens)
        elif not outputs:
            time.sleep(HELD_BACK_S)
        for output in outputs:
            if output.id in self._samples:
                self._tell(output, now)

    def _tell(self, output: Output, now_ns: int) -> None:
        sample = self._samples[output.id]
        text = ""
        if output.choice is not None:
            text = sample.stream.take()
            self.watcher.token(sample.waited(now_ns), first=sample.first_ns is None)
            sample.came(now_ns)
        if output.finish is None:
            self._send(sample, Piece(index=sample.index, text=text, choice=output.choice))
            return
        try:
            piece = sample.last(output, text)
        except Exception as error:  # its text is its own trouble
            piece = Piece(index=sample.index, finish="error", reason=f"its text failed: {error!r}")
        if output.usage is not None:
            cached = output.usage.cached_tokens
            self._news.append(lambda: sample.answer.cached.__setitem__(sample.place, cached))
        self._over(output.id, piece, now_ns)

    def _send(self, sample: Sample, piece: Piece) -> None:
        self._news.append(lambda: sample.answer.pieces.put_nowait(piece))

    def _over(self, name: str, piece: Piece, now_ns: int) -> None:
        sample = self._samples.pop(name)
        answer = sample.answer
        names = self._names[answer]
        names.discard(name)
        if not names:
            del self._names[answer]
        record = sample.record(piece.finish, now_ns)
        self.watcher.over(record)

        seconds = record.seconds if piece.finish in ("stop", "length") else None
        self._news.append(lambda: answer.ended(piece, seconds))

    def _enter(self, answer: Answer) -> None:
        error: Exception | None = None
        entered: list[str] = []
        try:
            if self.broken or self._ending:
                raise Unavailable(self.broken or "it is shutting down")
            index = 0
            for place, ask in enumerate(answer.asks):
                entered += self._add(answer, place, index, ask)
                index += ask.samples
        except Exception as caught:  # whatever is wrong with it, it is wrong with this one only
            error = caught
            for name in entered:
                self.engine.abort(name)
                del self._samples[name]
        else:
            self._names[answer] = set(entered)
        self._news.append(lambda: answer.decided(error))

    def _add(self, answer: Answer, place: int, index: int, ask: Ask) -> list[str]:
        """Let one prompt in; the names of its texts, as the engine calls them."""
        self._serial += 1
        name = str(self._serial)
        samples = [Sample(answer, place, index + number, ask, self.words) for number in range(ask.samples)]
        hear, sampling = tuple(sample.stream.hear for sample in samples), ask.sampling
        if sampling.seed is None and self._dice is not None:
            sampling = replace(sampling, seed=self._dice.getrandbits(63))
        generation = Generation(id=name, prompt=ask.prompt, max_tokens=ask.max_tokens, min_tokens=ask.min_tokens,
                                end=ask.end, ignore_end=not ask.end, sampling=sampling, samples=ask.samples,
                                stop_when=hear if ask.samples > 1 else hear[0], priority=ask.priority)
        self.engine.add(generation)
        sequence, names = self.engine.scheduler.sequences[name], list(generation.ids())
        for one, sample in zip(names, samples, strict=True):
            sample.sequence = sequence
            self._samples[one] = sample
        return names

    def _abort(self, answer: Answer) -> None:
        now = self.engine.clock()
        for name in sorted(self._names.get(answer, ())):
            self.engine.abort(name)
            self._over(name, Piece(index=self._samples[name].index, finish="aborted"), now)

    def _end(self) -> None:
        """Everybody ends; so does the thread."""
        for answer in list(self._names):
            self._abort(answer)
        self._ending = True
        while not self._orders.empty():  # who asked at the last moment is told no
            self._orders.get()()

    def _break(self, reason: str) -> None:
        self.broken = self.broken or reason
        now = self.engine.clock()
        for name, sample in list(self._samples.items()):
            self._over(name, Piece(index=sample.index, finish="error", reason=reason), now)
            try:
                self.engine.abort(name)
            except Exception:
                continue  # what is broken cannot be put in order; nobody is let in any more
        self.engine.live.clear()

    def _publish(self) -> None:
        """What came, to the loop: in one call a step."""
        if not self._news:
            return
        news, self._news = self._news, []

        def hand_out() -> None:
            for one in news:
                one()

        try:
            self._loop.call_soon_threadsafe(hand_out)
        except RuntimeError:  # the loop has closed: nobody is left to be told
            return
