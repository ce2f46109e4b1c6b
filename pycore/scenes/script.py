"""Scene (a): a small script of events, run by the real scheduler to its end.

    add A 20 +12               # a request: 20 prompt tokens, 12 to produce
    add B 24 +8 like A 16      # its first 16 tokens are those of A
    add C 10 +4 priority 1     # for the policy that looks at it: lower goes first
    step 3                     # three steps (one where no number stands)
    fork A as A2               # a second continuation that shares A's blocks
    abort B

One event a line, or several with ; between them. # begins a remark. What is left runs to its end by itself.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.scenes.film import Film
from pycore.scenes.recorder import Recorder
from pycore.scenes.stage import Setting, Stage

NAME = r"[A-Za-z0-9_.-]{1,16}"
COUNT = r"[0-9]{1,6}"
ADD = re.compile(rf"add ({NAME}) ({COUNT}) \+ ?({COUNT})(?: like ({NAME}) ({COUNT}))?(?: priority (-?{COUNT}))?")
FORK, ABORT = re.compile(rf"fork ({NAME}) as ({NAME})"), re.compile(rf"abort ({NAME})")
STEP = re.compile(r"step(?: ([0-9]{1,4}))?")
FORMS = "add A 20 +12, add B 24 +8 like A 16, add C 10 +4 priority 1, step 3, fork A as B, abort A"
MOST_EVENTS, MOST_REQUESTS, MOST_TOKENS = 200, 64, 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """`like`: whose first `shared` tokens it begins with."""

    line: int
    name: str
    prompt: int
    output: int
    like: str = ""
    shared: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A second continuation of `name`, called `new`."""

    line: int
    name: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """`name` is dropped."""

    line: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """So many steps of everybody."""

    line: int
    count: int


Event = Add | Fork | Abort | Steps


def parse(text: str) -> tuple[Event, ...]:
    """The events of a script. Raises InputError naming the line."""
    events = tuple(_events(text))
    if not any(isinstance(event, Add) for event in events):
        raise InputError("script", text.strip() or "(empty)", f"accepted: at least one request; events: {FORMS}")
    if len(events) > MOST_EVENTS:
        raise InputError("script", f"{len(events):,} events", f"accepted: at most {MOST_EVENTS}")
    return events


def _events(text: str) -> Iterator[Event]:
    known: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for part in line.partition("#")[0].split(";"):
            words = " ".join(part.split())
            if words:
                yield _event(words, number, known)


def _event(words: str, line: int, known: dict[str, int]) -> Event:
    """One event; `known`: prompt tokens of the requests before it, by name."""
    if match := ADD.fullmatch(words):
        event = Add(line=line, name=match[1], prompt=int(match[2]), output=int(match[3]), like=match[4] or "",
                    shared=int(match[5] or 0), priority=int(match[6] or 0))
        check(event, known)
        known[event.name] = event.prompt
        return event
    if match := FORK.fullmatch(words):
        if match[1] not in known or match[2] in known:
            raise refused(line, words, "a name that was added, and one that was not")
        known[match[2]] = known[match[1]]
        return Fork(line=line, name=match[1], new=match[2])
    if match := ABORT.fullmatch(words):
        if match[1] not in known:
            raise refused(line, words, "a name that was added before")
        return Abort(line=line, name=match[1])
    if match := STEP.fullmatch(words):
        return Steps(line=line, count=int(match[1] or 1))
    raise refused(line, words, FORMS)


def check(event: Add, known: dict[str, int]) -> None:
    """Raises InputError for a request that makes no sense beside the others."""
    if event.name in known:
        raise refused(event.line, event.name, "a name that no other request has")
    if not 1 <= event.prompt <= MOST_TOKENS or not 1 <= event.output <= MOST_TOKENS:
        raise refused(event.line, f"{event.prompt} +{event.output}", f"prompt and output from 1 to {MOST_TOKENS:,} tokens")
    if len(known) >= MOST_REQUESTS:
        raise refused(event.line, event.name, f"at most {MOST_REQUESTS} requests")
    if event.like and event.like not in known:
        raise refused(event.line, f"like {event.like}", "the name of a request before it")
    if event.shared > min(event.prompt, known.get(event.like, event.prompt)):
        raise refused(event.line, f"like {event.like} {event.shared}", "no more tokens than either prompt has")


def refused(line: int, value: str, accepted: str) -> InputError:
    return InputError("script", value, f"line {line}; accepted: {accepted}")


@functools.lru_cache(maxsize=8)
def film(text: str, setting: Setting) -> Film:
    """The script, run. Raises InputError."""
    stage = Stage(setting)
    for event in parse(text):
        play(stage, event)
    stage.finish()
    notes = stuck(stage)
    fullest = max(stage.frames, key=lambda frame: (frame.used, len(frame.tables), frame.number))
    return stage.film(opens=fullest.number, notes=notes)


def recorded(text: str, setting: Setting) -> str:
    """The event file of a script's run, as an engine writes one (event_file.py). Raises InputError."""
    lines: list[str] = []
    stage = Stage(setting)
    stage.scheduler = Recorder(stage.scheduler, lines.append, words=stage.vocabulary.words.__getitem__)
    for event in parse(text):
        play(stage, event)
    stage.finish()
    stage.scheduler.close()
    return "".join(lines)


def play(stage: Stage, event: Event) -> None:
    """One event. Raises InputError naming its line."""
    if isinstance(event, Steps):
        stage.run(event.count)
    elif isinstance(event, Add):
        words = list(stage.vocabulary.text(stage.said[event.like].tokens[:event.shared])) if event.like else []
        words += [f"{event.name}{at}" for at in range(event.shared, event.prompt)]
        stage.add(event.name, words, event.output, priority=event.priority)
    elif event.name not in stage.scheduler.sequences:
        said = stage.said[event.name].sequence.status
        raise refused(event.line, event.name, f"a request that is under way there; it is {said} by then")
    elif isinstance(event, Fork):
        stage.fork(event.name, event.new)
    else:
        stage.abort(event.name)


def stuck(stage: Stage) -> tuple[str, ...]:
    """What never ran, in sentences."""
    left = sorted(stage.scheduler.sequences)
    refusals = [f"{name} was refused: {said.sequence.reason}" for name, said in stage.said.items()
                if said.sequence.status == "refused"]
    return (*refusals, *(f"{name} could not go on" for name in left))
