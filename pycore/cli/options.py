"""Command-line options made from a Query's own fields, for every product: declared once, the same on page and shell.

An option's value goes to `knobs.parse` as text, so ranges, choices and messages are those of the form. Long texts
(a config.json, a log) are given as a file's name, as `-` for standard input, or as the text itself.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from pycore.errors import InputError, SourceError
from pycore.knobs import TEXT_LIMIT, Knob, as_text, knobs, parse
from pycore.units import significant


class QuestionCommand(click.Command):
    """A command whose help lists the question's options under their groups, the command's own first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record:
                sections.setdefault(getattr(parameter, "group", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class KnobOption(click.Option):
    """One field of a question as an option; `group` is the help section it stands in."""

    def __init__(self, knob: Knob, names: Callable[[str], Iterable[str]] | None = None) -> None:
        flag = {"is_flag": False, "flag_value": "yes"} if knob.kind == "flag" else {}
        super().__init__([knob.option, knob.name], type=str, metavar=metavar(knob), help=help_text(knob),
                         shell_complete=completer(knob, names), **flag)
        self.group = knob.group or "Question"


def metavar(knob: Knob) -> str:
    """'TOKENS', 'auto|fp16|bf16', 'NAME', 'FILE': what stands behind the option in the help."""
    if knob.choices:
        return "[" + "|".join(knob.choices) + "]"
    if knob.kind == "long text":
        return "FILE"
    if knob.kind == "flag":
        return "[yes|no]"
    if knob.kind in ("integer", "number"):
        return (knob.unit.split()[0] if knob.unit else "N" if knob.kind == "integer" else "X").upper()
    return "NAME"


def help_text(knob: Knob) -> str:
    """The field's help with its range and default."""
    parts = [knob.help]
    if knob.kind == "long text":
        parts.append("A file, or - for standard input.")
    if knob.kind in ("integer", "number"):
        parts.append(f"From {significant(knob.low, 6)} to {significant(knob.high, 6)}"
                     + (f"; 0 = {knob.zero}." if knob.zero else "."))
    if knob.default != "":
        parts.append(f"[default: {as_text(knob.default)}]")
    return " ".join(parts)


def completer(knob: Knob, names_of: Callable[[str], Iterable[str]] | None = None) -> Callable | None:
    """Shell completion from the choices or from a table's names; `names_of` gives them, the catalogue by default."""
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        names = knob.choices
        if knob.suggestions:
            from pycore import catalog
            names = (names_of or catalog.names)(knob.suggestions)
        return [name for name in names if name.lower().startswith(incomplete.lower())]

    return complete if knob.choices or knob.suggestions else None


def question(query: type, *, leave_out: Iterable[str] = (), names: Callable[[str], Iterable[str]] | None = None) -> Callable:
    """Decorator: the command takes every field of `query` as an option. What was not given arrives as None.

    `names`: gives the names of a table that completes a field, where it is not one of the catalogue's.
    """
    hidden = set(leave_out)

    def decorate(command: Callable) -> Callable:
        wanted = [KnobOption(knob, names) for knob in knobs(query) if knob.name not in hidden]
        command.__click_params__ = getattr(command, "__click_params__", []) + wanted[::-1]
        return command

    return decorate


def ask(query: type, options: Mapping[str, Any]) -> Any:
    """The question that the options mean. Raises InvalidQuery, InputError, SourceError."""
    given = {name: value for name, value in options.items() if value is not None}
    long = [knob.name for knob in knobs(query) if knob.kind == "long text" and knob.name in given]
    if sum(given[name] == "-" for name in long) > 1:
        raise InputError(long[-1], "-", "accepted: standard input for one option only")
    for name in long:
        given[name] = long_text(name, given[name])
    return parse(query, given)


def long_text(field: str, value: str) -> str:
    """The text that `value` names: standard input for '-', a file's content, or the text itself.

    A value with a brace or a line break is a text; anything else must be a file that can be read. Raises SourceError.
    """
    if value == "-":
        return limited(field, "standard input", sys.stdin.buffer.read(TEXT_LIMIT + 1))
    if value == "" or "\n" in value or value.lstrip().startswith("{"):
        return value
    try:
        with Path(value).open("rb") as file:
            return limited(field, value, file.read(TEXT_LIMIT + 1))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(shortened(value), f"cannot be read as a file: {reason}", field) from None


def limited(field: str, name: str, content: bytes) -> str:
    """Bytes as text. Raises SourceError when there are too many of them or they are no UTF-8."""
    if len(content) > TEXT_LIMIT:
        raise SourceError(shortened(name), f"larger than {TEXT_LIMIT:,} bytes", field)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SourceError(shortened(name), "not UTF-8 text", field) from None


def shortened(text: str) -> str:
    """At most 80 characters, for messages."""
    return text if len(text) <= 80 else text[:77] + "..."
