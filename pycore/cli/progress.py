"""A progress bar on standard error, only on a terminal and only where an answer takes a while."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

PATIENCE_S = 0.5
"""How long nothing is shown: most answers are there before."""


class Bar(Protocol):
    """What shows progress."""

    def __call__(self, stage: str, fraction: float) -> None: ...


@contextmanager
def bar() -> Iterator[Bar]:
    """Something to report to; it draws nothing where nobody watches."""
    if not sys.stderr.isatty():
        yield lambda stage, fraction: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Rich

    shown = Rich(TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
                 console=Console(stderr=True), transient=True)
    task, began = shown.add_task("", total=1.0), time.monotonic()

    def report(stage: str, fraction: float) -> None:
        if not shown.live.is_started and time.monotonic() - began >= PATIENCE_S:
            shown.start()
        shown.update(task, description=stage, completed=fraction)

    try:
        yield report
    finally:
        shown.stop()


def watched(items: Iterable[Any]) -> Any:
    """The last item of `items`; those before it that have a `stage` and a `fraction` are shown as progress."""
    last = None
    with bar() as report:
        for last in items:
            if hasattr(last, "stage") and hasattr(last, "fraction"):
                report(last.stage, last.fraction)
    return last
