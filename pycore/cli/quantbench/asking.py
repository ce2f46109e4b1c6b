"""From options to a question: what every quantbench command shares."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from pycore import cache
from pycore.cli import output
from pycore.cli.options import limited, question
from pycore.errors import InputError, SourceError
from pycore.knobs import TEXT_LIMIT, changed, knobs, parse, to_url
from pycore.ledger import Term
from pycore.systems.quantbench import PACKAGES, completions
from pycore.systems.quantbench_question import FORMAT, GPTQ, LOOK, METHODS, PLAN, WEIGHTS, Query

SOURCES = ("values", "file", "tensor")
INSTALL = "pip install numpy"


def fields(*groups: str) -> tuple[str, ...]:
    """The question's fields of these groups, less those that --values and --tensor stand for."""
    return tuple(knob.name for knob in knobs(Query) if knob.group in groups and knob.name not in SOURCES)


INSPECTED = fields(FORMAT, WEIGHTS, LOOK) + ("rotation", "smoothing", "awq", "alpha", "inputs", "samples")
DRAWN = fields(WEIGHTS)
PLANNED = fields(PLAN)
ALL = fields(FORMAT, WEIGHTS, LOOK, METHODS, GPTQ, PLAN)


def options(*names: str, weights: bool = False) -> Callable:
    """Decorator: the command takes these fields of the question, and --json; with `weights` --values and --tensor too."""
    def decorate(command: Callable) -> Callable:
        command = question(Query, leave_out={knob.name for knob in knobs(Query)} - set(names), names=completions)(command)
        if weights:
            command = click.option("--file", metavar="FILE", help="The .safetensors file, where --tensor gives a name alone."
                                   )(command)
            command = click.option("--tensor", metavar="FILE:NAME", help="Weights from a tensor of a .safetensors file; "
                                   "FILE alone: its first matrix. Only the rows asked for are read.")(command)
            command = click.option("--values", metavar="NUMBERS", help="The weights themselves, '0.1,-0.2'; a new line or "
                                   "; begins a row; - for standard input. Without --values and --tensor: the preset."
                                   )(command)
        return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)

    return decorate


def explained(command: Callable) -> Callable:
    """Decorator: the command takes --explain."""
    return click.option("--explain", metavar="TERM",
                        help="Print only how this number came about: formula, values, sources.")(command)


def read(given: Mapping[str, Any]) -> Query:
    """The question that the options mean. Raises InvalidQuery, InputError, SourceError."""
    found = {name: value for name, value in given.items() if value is not None}
    if "values" in found and ("tensor" in found or "file" in found):
        raise InputError("values", found["values"], "accepted: --values or --tensor, not both")
    if found.get("values") == "-":
        found["values"] = limited("values", "standard input", standard_input().read(TEXT_LIMIT + 1))
    if "values" in found and not found["values"].strip():
        raise InputError("values", found["values"], "accepted: at least one number")
    if "tensor" in found and "file" not in found:
        found["file"], found["tensor"] = split(found["tensor"])
    return parse(Query, found)


def standard_input() -> Any:
    """Standard input as bytes. Raises SourceError where there is none."""
    if sys.stdin is None or sys.stdin.closed:
        raise SourceError("standard input", "is closed; give --values or --tensor", "values")
    return sys.stdin.buffer


def split(text: str) -> tuple[str, str]:
    """(file, tensor) of FILE:NAME: at the last colon before which a file lies; a name may be left out."""
    places = [place for place, letter in enumerate(text) if letter == ":"]
    for place in reversed(places):
        if exists(text[:place]):
            return text[:place], text[place + 1:]
    if exists(text) or not places:
        return text, ""
    return text[:places[-1]], text[places[-1] + 1:]


def exists(name: str) -> bool:
    """Whether a file of that name is there; a name that no file can have is not."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def need_numpy() -> None:
    """Raise SourceError where numpy is not installed."""
    if cache.absent(PACKAGES):
        raise SourceError("numpy", f"is not installed; this installs it: {INSTALL}")


def setting(query: Query) -> dict[str, Any]:
    """What was asked, for JSON: the fields that differ from their defaults, and the page's address of them."""
    return {"query": changed(query), "url": None if query.file else page_address(query)}


def page_address(query: Query) -> str:
    """The query string that opens the same question on the page."""
    return "?" + to_url(query)


def explain(terms: tuple[Term, ...], name: str) -> None:
    """Print how a number came about. Raises UnknownName with the nearest."""
    from pycore.cli.explain import explain as chain
    chain(terms, name)


def decibels(value: float | None, digits: int = 2) -> str:
    """'20.41', '∞' where nothing was lost, '-' where it is not known."""
    if value is None or value != value:
        return "-"
    return ("∞" if value > 0 else "−∞") if value in (float("inf"), float("-inf")) else f"{value:.{digits}f}"


def sentence(text: str) -> None:
    """A remark under a table."""
    output.line(f"  {text}")
