"""The model that a command runs: named as its first word or by --model, opened, and put into an engine."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from pycore.cli.mini_infer import engine
from pycore.cli.mini_infer.say import say
from pycore.cli.mini_infer.setup_options import choices
from pycore.errors import InputError
from pycore.systems.mini_infer_setup import Choices

RESERVED = ("messages", "add_generation_prompt")


def variable_option(command: Callable) -> Callable:
    """Decorator: the command takes --variable, any number of times."""
    return click.option("--variable", multiple=True, metavar="NAME=VALUE",
                        help="A variable of the chat template, such as enable_thinking=false.")(command)


def variables(given: Iterable[str]) -> dict[str, object]:
    """Names and values, which are JSON or else text. Raises InputError."""
    found: dict[str, object] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.isidentifier() or name in found or name in RESERVED:
            raise InputError("variable", one, "accepted: NAME=VALUE, each name once, and none that every template is given")
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def events_option(command: Callable) -> Callable:
    """Decorator: the command takes --events."""
    return click.option("--events", metavar="FILE", help="Write what the scheduler decides to FILE, for the page and "
                        "`mini-infer events`; it holds the prompts.")(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What was chosen, the model (`runtime.mini_infer.source.Source`) and the engine that it runs in."""

    chosen: Choices
    source: Any
    engine: Any


def chosen_by(options: dict[str, Any], word: str | None) -> Choices:
    """The choices at start; `word` is the model as the command's own argument. Raises InvalidQuery, InputError."""
    if word is not None and options.get("model") not in (None, word):
        raise InputError("model", options["model"], f"accepted: once; the command already names {word}")
    return choices(options, **({} if word is None else {"model": word}))


@contextmanager
def recorded(found: Opened, path: str | None) -> Iterator[None]:
    """While it lasts, what the scheduler decides is written to a file, where one is named. Raises SourceError."""
    if path is None:
        yield
        return
    words = found.source.words

    def text(token: int) -> str:
        return words.token_bytes(token).decode("utf-8", "replace")

    with engine.part("events").recording(found.engine, path, words=text, model=found.source.name, ended=say):
        yield


def opened(chosen: Choices) -> Opened:
    """The model, read, and its engine. Raises StudioError."""
    source = engine.part("source").open_source(chosen.model, dtype=chosen.dtype, device=chosen.device, say=say)
    made = engine.part("setup").Setup.of(chosen).engine(source.model, lambda text: say(text, style="dim"))
    return Opened(chosen=chosen, source=source, engine=made)
