"""What is watched while a server is soaked: how fast /health answers, the process's memory, and what is left over after."""

import ctypes
import gc
import http.client
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, linear_regression, median

from pycore.serving.sequence import Sequence
from runtime.mini_infer.answers import Answer
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.generation import Live
from runtime.mini_infer.service import Service
from runtime.mini_infer.soaking.findings import Findings
from runtime.mini_infer.under_way import Sample

HEALTH_EVERY_S, MEMORY_EVERY_S = 0.05, 0.25
PATIENCE_S = 30.0
LEFT = (Answer, Sample, Live, Sequence, Service, Engine)
"""Of what no object may live on when its server has gone."""
FEWEST = 8  # samples that a line is drawn through
WARM_UP = 0.25  # share of a run whose memory is not judged


def memory_bytes() -> int | None:
    """What the process holds in memory; None where this system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def trim() -> None:
    """Let the allocator give back what it keeps free, where it can be told to (glibc): after each server's threads it keeps
    some more, which nobody holds and which is no leak."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, TypeError, AttributeError):  # another library
        return


def sockets() -> int | None:
    """Open sockets of the process; None where this system does not say."""
    try:
        names = os.listdir("/dev/fd")
    except OSError:
        return None
    found = 0
    for name in names:
        try:
            found += stat.S_ISSOCK(os.fstat(int(name)).st_mode)
        except (OSError, ValueError):  # the listing's own
            continue
    return found


def alive() -> Counter[str]:
    """Objects of a server that still live, by kind."""
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A line through samples of memory: bytes a second, its standard error, the seconds that it goes over, how many."""

    bytes_per_s: float
    error: float
    seconds: float
    samples: int

    @property
    def growth(self) -> float:
        """Bytes by which it surely grew: the line's rise, less twice its error."""
        return (self.bytes_per_s - 2 * self.error) * self.seconds


@dataclass(slots=True)
class Memory:
    """Samples of (second, bytes), at most four a second."""

    samples: list[tuple[float, int]] = field(default_factory=list)

    def take(self, now_s: float) -> None:
        """One sample, where it is time for one."""
        if self.samples and now_s - self.samples[-1][0] < MEMORY_EVERY_S:
            return
        if (found := memory_bytes()) is not None:
            self.samples.append((now_s, found))

    def drift(self) -> Drift | None:
        """The line through what came after the warm-up; None for too few samples. Least squares."""
        begun = self.samples[0][0] if self.samples else 0.0
        whole = self.samples[-1][0] - begun if self.samples else 0.0
        judged = [(at, size) for at, size in self.samples if at - begun >= WARM_UP * whole]
        if len(judged) < FEWEST:
            return None
        times, sizes = zip(*judged, strict=True)
        slope, base = linear_regression(times, sizes)
        squares = sum((size - base - slope * at) ** 2 for at, size in zip(times, sizes, strict=True))
        middle = fmean(times)
        error = sqrt(squares / (len(times) - 2) / sum((at - middle) ** 2 for at in times))
        return Drift(bytes_per_s=slope, error=error, seconds=times[-1] - times[0], samples=len(times))


class Health:
    """Asks /health, in a thread of its own, again and again; `times` are seconds. Samples memory between."""

    def __init__(self, port: int, findings: Findings, memory: Memory, most_s: float):
        self.port, self.findings, self.memory, self.most_s = port, findings, memory, most_s
        self.times: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def __enter__(self) -> "Health":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(2 * PATIENCE_S)

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            while not self._over.wait(HEALTH_EVERY_S):
                self.memory.take(time.monotonic())
                self._ask(connection)
        finally:
            connection.close()

    def _ask(self, connection: http.client.HTTPConnection) -> None:
        begun = time.monotonic()
        try:
            connection.request("GET", "/health")
            answer = connection.getresponse()
            words = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self.findings.fault("health", f"no answer after {time.monotonic() - begun:.3f} s: {error!r}")
            return
        took = time.monotonic() - begun
        self.times.append(took)
        if answer.status != 200:
            self.findings.fault("health", f"{answer.status} {words[:200]!r}")
        elif took > self.most_s:
            self.findings.fault("health", f"an answer took {took:.3f} s; accepted: {self.most_s} s")


def spread(times: list[float]) -> dict[str, float | None]:
    """Median, the 99th of 100, and the largest."""
    if not times:
        return {"median_s": None, "p99_s": None, "largest_s": None}
    ordered = sorted(times)
    return {"median_s": median(ordered), "p99_s": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
            "largest_s": ordered[-1]}


@contextmanager
def set_apart() -> Iterator[None]:
    """What there is before need not be gone through again and again for what is left over."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
