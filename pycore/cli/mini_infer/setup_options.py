"""The choices at start as command-line options, the same for every command that starts an engine."""

from collections.abc import Callable, Mapping
from typing import Any

from pycore.cli.options import question
from pycore.knobs import knobs, parse
from pycore.systems.mini_infer_setup import Choices

NAMES = tuple(knob.name for knob in knobs(Choices))


def setup_options(*leave_out: str) -> Callable:
    """Decorator: the command takes every choice as an option, but for those left out. What is not given arrives as None.

    Commands so decorated are `QuestionCommand`s, so that their help groups the options.
    """
    return question(Choices, leave_out=leave_out, names=lambda table: ())


def choices(options: dict[str, Any] | Mapping[str, Any], **fixed: Any) -> Choices:
    """The choices that a command's options mean, checked together; `fixed` are those that it makes itself.

    Other options may be among them and are left alone. Raises InvalidQuery, InputError.
    """
    given = {name: options[name] for name in NAMES if options.get(name) is not None}
    return parse(Choices, given | fixed).checked()
