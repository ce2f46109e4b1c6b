"""The film of a file of events that an engine wrote: played on the same stage as every other scene (player.py)."""

from collections.abc import Generator, Iterable

from pycore.cache import is_upload, opened
from pycore.errors import InputError
from pycore.kept import drained, kept_in_steps
from pycore.scenes.event_file import Header, read, streamed
from pycore.scenes.film import Film
from pycore.scenes.player import Player

MOST_FILE_BYTES = 64 << 20
MOST_KEPT = 2


def lines_of(text: str) -> Iterable[str]:
    """The lines of a pasted text, or of a file that the page keeps. Raises InputError."""
    if not is_upload(text):
        return text.splitlines()
    name, size, ranged = opened("events", text)
    if size > MOST_FILE_BYTES:
        raise InputError("events", name, f"accepted: at most {MOST_FILE_BYTES >> 20} MiB")
    return streamed(size, ranged)


@kept_in_steps(MOST_KEPT)
def filming(text: str, first: int) -> Generator[int, None, Film]:
    """The film of a file, its text or a reference to it, as `playing` makes it; the last few are kept. Raises InputError."""
    return (yield from playing(lines_of(text), first))


def played(lines: Iterable[str], first: int = 0) -> Film:
    """The film of a file's lines. Raises InputError."""
    return drained(playing(lines, first))


def playing(lines: Iterable[str], first: int) -> Generator[int, None, Film]:
    """Yields the number of each line that was played, so that a long file can be shown to be played; returns the film.
    Pictures begin at step `first`. Raises InputError."""
    header, rest = read(lines)
    player, last = Player(header, first), ""
    for line in rest:
        player.play(line)
        last = line.content.get("end", "") if line.kind == "end" else ""
        yield line.number
    if not player.frames:
        raise InputError("events", f"{player.scheduler.steps:,} steps",
                         "accepted: a file with at least one request, and a first step that it has")
    fullest = max(player.frames, key=lambda frame: (frame.used, len(frame.tables), frame.number))
    return player.film(opens=fullest.number, notes=remarks(player, header, last))


def remarks(player: Player, header: Header, last: object) -> tuple[str, ...]:
    """What a reader must know, in sentences."""
    notes = []
    if player.skipped:
        notes.append(f"{len(player.frames):,} of {len(player.frames) + player.skipped:,} pictures are shown; another first "
                     "step shows others")
    if last != "closed":
        notes.append("The recording was stopped at its limit of size" if last == "full" else
                     "The file breaks off: the engine was not shut down when it was copied, or ended otherwise")
    if header.model:
        notes.append(f"Recorded from {header.model}")
    return tuple(notes)
