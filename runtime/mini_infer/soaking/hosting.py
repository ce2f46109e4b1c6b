"""One server on a free port of this machine, in a thread, and the proof that nothing of it is left in the end."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from runtime.mini_infer.engine import Engine
from runtime.mini_infer.server import serving
from runtime.mini_infer.server.application import Settings
from runtime.mini_infer.soaking import watch
from runtime.mini_infer.soaking.asks import MOST_BODY_BYTES
from runtime.mini_infer.soaking.findings import Findings
from runtime.mini_infer.witness import MOVES
from runtime.mini_infer.words import Words

STARTS_WITHIN_S, ENDS_WITHIN_S = 30.0, 60.0
POLL_S, COUNT_EVERY_S = 0.01, 0.2
LAST = 1500  # characters of an error in a log: its end says most
IDLE = ("Answer", "Sample", "Live")  # of what a server without requests remembers nothing
SUMS = ("prompt_tokens", "cached_tokens", "output_tokens", "preemptions", "steps", "drafted", "accepted", "wasted")


@dataclass(frozen=True, slots=True)
class Hosted:
    """A server that runs."""

    server: serving.Server
    engine: Engine
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def hosted(engine: Engine, words: Words, queue: int, findings: Findings) -> Iterator[Hosted]:
    """A server while the block lasts. That it does not start raises RuntimeError; that it does not end is a fault."""
    _count_moves(engine, findings)
    with serving.bind("127.0.0.1", 0) as place:
        made = serving.server(engine, words, Settings(most_body_bytes=MOST_BODY_BYTES), name="soak", queue=queue)
        thread = threading.Thread(target=serving.serve, args=(made, place, lambda text: None), name="server", daemon=True)
        thread.start()
        try:
            if not within(STARTS_WITHIN_S, lambda: made.started):
                raise RuntimeError("the server does not start")
            yield Hosted(made, engine, place.getsockname()[1])
        finally:
            made.should_exit = True
            thread.join(ENDS_WITHIN_S)
            if thread.is_alive():
                findings.fault("hang", f"the server does not end within {ENDS_WITHIN_S} s")


def _count_moves(engine: Engine, findings: Findings) -> None:
    """Count the steps of an engine in which blocks were copied, evicted or swapped, and somebody preempted."""
    step, last = engine.step, engine.last_plan

    def counted() -> tuple:
        nonlocal last
        outputs, plan = step(), engine.last_plan
        if plan is not last:
            last = plan
            for move in MOVES:
                if moved := len(getattr(plan, move)):
                    findings.count(move, moved)
        return outputs

    engine.step = counted


def within(seconds: float, true: Callable[[], bool], every_s: float = POLL_S) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True


def settle(host: Hosted, seconds: float, findings: Findings) -> None:
    """Nobody asks any more: soon nobody is under way, every block is free or cached, and nothing is remembered."""
    service, engine = host.server.service, host.engine
    if not within(seconds, lambda: service.under_way == 0 and engine.idle):
        findings.fault("leak", f"after {seconds} s {service.under_way} texts are under way still, {len(engine.live)} of "
                       "them in the engine")
        return
    try:
        census = engine.scheduler.check()
    except AssertionError as error:
        findings.fault("leak", f"the scheduler's books are wrong: {error}")
        return
    memory = engine.scheduler.memory
    held = census.used + (memory.host.used if memory.host else 0)
    if held or engine.live:
        findings.fault("leak", f"{held} blocks are held and {len(engine.live)} texts live, and nobody is under way")
    for name in SUMS:
        findings.count(name, getattr(engine.statistics(), name))


class Before:
    """What there was before a server started: threads, sockets, tasks, objects. `left` finds what is there beyond that."""

    def __init__(self) -> None:
        self.threads, self.sockets = set(threading.enumerate()), watch.sockets()
        self.objects, self.tasks = watch.alive(), _tasks()

    def left(self, seconds: float, findings: Findings) -> None:
        """Tell what is left after `seconds` at most. The server's own variables must be gone before."""
        for name, more in (("threads", self._threads), ("sockets", self._sockets), ("tasks", self._tasks),
                           ("objects", self._objects)):
            if not within(seconds, lambda more=more: not more(), COUNT_EVERY_S):
                findings.fault("leak", f"{name} are left when the server has ended: {more()}")

    def _threads(self) -> list[str]:
        return [one.name for one in threading.enumerate() if one not in self.threads]

    def _sockets(self) -> int:
        return max(0, (watch.sockets() or 0) - (self.sockets or 0))

    def _tasks(self) -> list[str]:
        gc.collect()
        return _tasks()[len(self.tasks):]

    def _objects(self) -> dict[str, int]:
        return dict(watch.alive() - self.objects)

    def remembered(self, seconds: float, findings: Findings) -> None:
        """Tell what a server remembers that nobody asks any more, after `seconds` at most."""
        def more() -> dict[str, int]:
            return {name: count for name, count in self._objects().items() if name in IDLE}

        if not within(seconds, lambda: not more(), COUNT_EVERY_S):
            findings.fault("leak", f"a server without requests remembers {more()}")


def _tasks() -> list[str]:
    """Tasks of any event loop that are not done."""
    return [repr(one)[:200] for one in gc.get_objects() if issubclass(type(one), asyncio.Task) and not one.done()]


class Logged(logging.Handler):
    """An error in a log is a fault. Listens while the block lasts."""

    def __init__(self, findings: Findings):
        super().__init__(logging.ERROR)
        self.findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging."""
        self.findings.fault("logged", self.format(record)[-LAST:])

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)

    def __exit__(self, *error: object) -> None:
        logging.getLogger().removeHandler(self)
