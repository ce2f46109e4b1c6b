"""A question is a frozen dataclass; its fields say help, unit, range and choices once, and everything else follows:
the URL codec, the form, the CLI options, the Python lines and the error messages.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Query:
        context: int = knob(8192, "Context length", unit="tokens", low=1, high=2**24, help="Prompt plus output.")
        engine: str = knob("vllm", "Engine", choices=("vllm", "sglang"), help="Whose memory rules apply.")
"""

import dataclasses
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote

from pycore.errors import InputError, InvalidQuery
from pycore.units import count, significant

TEXT_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One field of a question, as forms, command lines and codecs need it."""

    name: str
    kind: str  # "integer", "number", "flag", "choice", "text", "long text"
    default: Any
    label: str
    help: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    suggestions: str = ""  # name of the catalogue table that completes it: "models", "accelerators", "formats"
    group: str = ""
    zero: str = ""  # what 0 (or an empty text) means, in words: "automatic"

    @property
    def option(self) -> str:
        """'--kv-dtype'"""
        return "--" + self.name.replace("_", "-")

    @property
    def accepted(self) -> str:
        """What the field takes, in words, for messages."""
        if self.choices:
            return "accepted: " + ", ".join(self.choices)
        if self.kind in ("integer", "number"):
            noun = "a whole number" if self.kind == "integer" else "a number"
            return f"accepted: {noun} from {significant(self.low, 6)} to {significant(self.high, 6)}" + (
                f" {self.unit}" if self.unit else "") + (f" (0 = {self.zero})" if self.zero else "")
        if self.kind == "flag":
            return "accepted: yes or no"
        return "accepted: text"


def knob(default: Any, label: str, *, help: str, unit: str = "", low: float | None = None, high: float | None = None,
         choices: tuple[str, ...] = (), suggestions: str = "", group: str = "", zero: str = "",
         long: bool = False) -> Any:
    """A dataclass field that carries its own declaration. Numbers must state `low` and `high`."""
    kind = ("choice" if choices else "flag" if isinstance(default, bool) else "integer" if isinstance(default, int)
            else "number" if isinstance(default, float) else "long text" if long else "text")
    if kind in ("integer", "number") and (low is None or high is None):
        raise ValueError(f"knob {label!r} needs low and high")
    return dataclasses.field(default=default, metadata={"knob": dict(
        kind=kind, default=default, label=label, help=help, unit=unit, low=low, high=high, choices=tuple(choices),
        suggestions=suggestions, group=group, zero=zero)})


def knobs(question: Any) -> tuple[Knob, ...]:
    """The knobs of a Query class (or of one of its instances), in the order they are declared."""
    return tuple(Knob(name=field.name, **field.metadata["knob"]) for field in dataclasses.fields(question))


def parse(question: type, given: Mapping[str, Any]) -> Any:
    """A Query from texts or values by field name; what is not given keeps its default.

    Raises InvalidQuery with every fault at once, unknown field names included.
    """
    table = {knob.name: knob for knob in knobs(question)}
    values, errors = {}, []
    for name, value in given.items():
        if name not in table:
            errors.append(InputError(name, value, "there is no such field; fields: " + ", ".join(table)))
            continue
        try:
            values[name] = read(table[name], value)
        except InputError as error:
            errors.append(error)
    if errors:
        raise InvalidQuery(errors)
    return question(**values)


def read(knob: Knob, value: Any) -> Any:
    """One field's value from text or from a value of its type. Raises InputError."""
    if knob.kind in ("integer", "number"):
        return read_number(knob, value)
    if knob.kind == "flag":
        text = str(value).strip().lower()
        if text in ("yes", "true", "1", "on"):
            return True
        if text in ("no", "false", "0", "off", ""):
            return False
        raise InputError(knob.name, value, knob.accepted)
    text = str(value)
    if len(text) > TEXT_LIMIT:
        raise InputError(knob.name, f"{len(text):,} characters", f"accepted: at most {TEXT_LIMIT:,} characters")
    if knob.kind == "choice":
        folded = {bare(choice): choice for choice in knob.choices}
        if bare(text) not in folded:
            raise InputError(knob.name, value, knob.accepted)
        return folded[bare(text)]
    return text if knob.kind == "long text" else text.strip()


def bare(text: str) -> str:
    """Letters and digits alone, in lower case: 'llama.cpp', 'LlamaCpp' and 'llama-cpp' are one choice."""
    return "".join(letter for letter in text[:TEXT_LIMIT].lower() if letter.isalnum())


def read_number(knob: Knob, value: Any) -> float:
    """A number within the knob's range; '8k' and '8,192' are understood. Raises InputError."""
    try:
        number = signed(value) if isinstance(value, str) else float(value)
    except (ValueError, TypeError, OverflowError):
        raise InputError(knob.name, value, knob.accepted) from None
    if not math.isfinite(number) or not knob.low <= number <= knob.high:
        raise InputError(knob.name, value, knob.accepted)
    if knob.kind == "number":
        return number
    if not number.is_integer():
        raise InputError(knob.name, value, knob.accepted)
    return int(number)


def signed(text: str) -> float:
    """`units.count` of a text that may have a minus before it: some fields go below zero. Raises ValueError."""
    text = text.strip()
    return -count(text[1:]) if text[:1] in ("-", "−") else count(text)


def changed(query: Any) -> dict[str, Any]:
    """The fields that differ from their defaults, in order: what a URL or a command needs to say."""
    return {knob.name: value for knob in knobs(query) if (value := getattr(query, knob.name)) != knob.default}


def as_text(value: Any) -> str:
    """A field's value as text that `read` takes back unchanged."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, float) else str(value)


def to_url(query: Any) -> str:
    """The query string (no leading '?') that gives this question again; '' for the default question."""
    return "&".join(f"{name}={quote(as_text(value), safe='/:,.-_~')}" for name, value in changed(query).items())


def from_url(question: type, text: str) -> Any:
    """The inverse of `to_url`. Raises InvalidQuery."""
    return parse(question, dict(parse_qsl(text.lstrip("?#"), keep_blank_values=True)))


def to_command(query: Any, command: str) -> str:
    """The shell command that asks the same question, quoted for a POSIX shell."""
    return " ".join([command] + [f"--{name.replace('_', '-')} {shlex.quote(as_text(value))}"
                                 for name, value in changed(query).items()])


def to_python(query: Any, module: str) -> str:
    """Python lines that ask the same question of the installed package."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in changed(query).items())
    return f"from {module} import Query, answer\nresult = answer(Query({arguments}))"
