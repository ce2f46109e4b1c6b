"""Where a sweep's points are computed: every core of this machine, or an existing Dask cluster. Points in any order."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from pycore.cli.sched_sim.points import Found, Place, compute
from pycore.errors import SourceError

PATIENCE = "10s"


def here(places: Sequence[Place], processes: int = 0) -> Iterator[Found]:
    """One process a core (0), or so many; a single one computes in this process. Raises SourceError."""
    processes = min(processes or cores(), len(places))
    if processes <= 1:
        yield from map(compute, places)
        return
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(compute, place) for place in places]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise SourceError("a worker process", "ended before it had answered (out of memory?); try --processes 1",
                              "processes") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_dask(places: Sequence[Place], address: str) -> Iterator[Found]:
    """The same points on a Dask cluster. Raises SourceError: not installed, no answer, workers that cannot run them."""
    try:
        import distributed
    except ImportError:
        raise SourceError("Dask", "is not installed here; install it with: pip install 'inference-studios[cluster]'",
                          "dask") from None
    try:
        client = distributed.Client(address, timeout=PATIENCE)
    except (OSError, ValueError, TypeError, ImportError) as error:
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise SourceError(address, f"no Dask scheduler answers there ({reason})", "dask") from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise SourceError(address, "the cluster has no workers", "dask")
        futures = [client.submit(compute, place, pure=False, retries=1) for place in places]
        try:
            for future in distributed.as_completed(futures):
                yield future.result()
        except ImportError as error:
            raise SourceError(address, "the cluster's workers lack this program: install the same version of "
                              f"inference-studios there ({error})", "dask") from None
        finally:
            client.cancel(futures)
