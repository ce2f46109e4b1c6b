"""What a running engine decides, written to a file that the page plays (pycore/scenes/event_file.py says what is in it)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from pycore.errors import SourceError
from pycore.scenes.recorder import Recorder
from runtime.mini_infer.engine import Engine


class Sink:
    """Lines into a file, each as soon as it is there. A full disk ends the recording, not the engine; `fault` says so, and
    `ended` is told it at once."""

    def __init__(self, file: FileIO, ended: Callable[[str], None] = lambda fault: None):
        self._file, self.fault, self.ended = file, "", ended

    def __call__(self, text: str) -> None:
        if self.fault:
            return
        try:
            left = text.encode("ascii")
            while left:
                left = left[self._file.write(left):]
        except OSError as error:
            self.fault = f"the recording ended: {error.strerror or error}"
            self.ended(self.fault)


@contextmanager
def recording(engine: Engine, path: str | Path, *, words: Callable[[int], str] | None = None,
              model: str = "", ended: Callable[[str], None] = lambda fault: None) -> Iterator[Sink]:
    """While it lasts, everything that goes into the engine's scheduler is written to `path`, prompts included.

    `words`: a token's text (`lambda token: words.decode((token,))`), so that the page shows text. `ended` is told, on the
    engine's thread, if the recording ends before that. An engine that is not
    idle cannot be recorded from the middle. Raises SourceError for a file that cannot be written.
    """
    if not engine.idle:
        raise SourceError(str(path), "a recording begins while the engine is idle", "events")
    try:
        file = FileIO(path, "w")  # nothing is kept back, so that closing it can write nothing either
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SourceError(str(path), f"cannot be written: {why}", "events") from None
    with file:
        sink, plain = Sink(file, ended), engine.scheduler
        recorder = Recorder(plain, sink, words=words, model=model, begun_ns=engine.clock())
        engine.scheduler = recorder
        try:
            yield sink
        finally:
            engine.scheduler = plain
            recorder.close()
