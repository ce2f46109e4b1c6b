"""The torch engine behind `quantize` and `eval`: found when it is asked for, never imported before."""

import importlib
from collections.abc import Callable
from typing import Any

import click

from pycore.cli.quantbench import asking
from pycore.cli.torch_engine import INSTALL, missing
from pycore.errors import InputError, SourceError
from pycore.systems.quantbench_question import options_of, written

__all__ = ("INSTALL", "call", "plan", "scheme", "state")
PLACE = "runtime.quantbench.commands"
METHODS = ("nearest", "gptq", "gptq-ordered", "awq", "smoothquant", "hqq")


def scheme(command: Callable) -> Callable:
    """Decorator: the command takes --method, --activations and --plan."""
    for option in (
            click.option("--plan", metavar="TEXT", help="Formats by projection instead, the last that fits winning: "
                         "'int4:group=32; down=q6_k; 3.v=q8_0; 0.*=none'."),
            click.option("--activations", is_flag=True, help="Round what goes into a layer to 8 bits, token by token."),
            click.option("--method", type=click.Choice(METHODS), default="nearest", show_default=True,
                         help="How codes are found: gptq for int4, hqq for q4_1, the others for every format.")):
        command = option(command)
    return command


def plan(options: dict[str, Any], *, required: bool) -> str | None:
    """The options as the text that the engine reads, those of `scheme` taken out; None where none names a format.

    Raises InvalidQuery, InputError.
    """
    text, method, activations = (options.pop(name) for name in ("plan", "method", "activations"))
    given = [name for name, value in options.items() if value is not None]
    if text is not None:
        if given or method != METHODS[0] or activations:
            raise InputError("plan", text, "accepted: alone; formats, methods and +a8 are part of its text")
        return text
    if not required and "format" not in given:
        if given or method != METHODS[0] or activations:
            raise InputError("format", "none", "accepted: a format, for its options and methods to be of")
        return None
    query = asking.read(options)
    chosen, unused = options_of(query)
    if unused:
        raise InputError(unused[0], getattr(query, unused[0]), f"{query.format} has no such option; leave it out")
    named = ",".join(f"{name}={written(value)}" for name, value in chosen)
    parts = [query.format + (f":{named}" if named else ""), *([method] if method != METHODS[0] else []),
             *(["a8"] if activations else [])]
    return "+".join(parts)


def state() -> str:
    """The same for a list of what is there."""
    return missing(PLACE) or "ready"


def call(name: str) -> Callable[..., Any]:
    """A function of the engine. Raises SourceError where it, or torch, is not here."""
    if lack := missing(PLACE):
        raise SourceError("torch engine", lack)
    return getattr(importlib.import_module(PLACE), name)
