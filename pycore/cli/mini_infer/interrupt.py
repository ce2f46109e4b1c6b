"""Ctrl-C as a wish that is looked at between two steps, so that the engine is never torn out of one."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Insisted(KeyboardInterrupt):
    """Pressed twice: whatever was torn out of its step is not to be used again."""


@contextmanager
def watched() -> Iterator[Callable[[], bool]]:
    """Within it, the first Ctrl-C makes the yielded function say True; a second one raises Insisted."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals come to the main thread alone
        yield pressed.is_set
        return

    def heard(number: int, frame: object) -> None:
        if pressed.is_set():
            raise Insisted
        pressed.set()

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
