"""From options to a question: what every token-atlas command shares."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from pycore.cli import output
from pycore.cli.options import ask, question
from pycore.knobs import changed, knobs, to_url
from pycore.ledger import Term
from pycore.systems.token_atlas import Query, completions


def options(*names: str) -> Callable:
    """Decorator: the command takes these fields of the question, and --json."""
    def decorate(command: Callable) -> Callable:
        fields = question(Query, leave_out={knob.name for knob in knobs(Query)} - set(names), names=completions)
        return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(fields(command))

    return decorate


def explained(command: Callable) -> Callable:
    """Decorator: the command takes --explain."""
    return click.option("--explain", metavar="TERM",
                        help="Print only how this number came about: formula, values, sources.")(command)


def read(given: Mapping[str, Any]) -> Query:
    """The question that the options mean. Raises InvalidQuery."""
    return ask(Query, given)


def setting(query: Query) -> dict[str, Any]:
    """What was asked, for JSON: the fields that differ from their defaults, and the page's address of them."""
    return {"query": changed(query), "url": page_address(query)}


def page_address(query: Query) -> str:
    """The query string that opens the same question on the page."""
    return "?" + to_url(query)


def value(term: Term | None) -> float | None:
    """A term's value."""
    return None if term is None else term.value


def interval(term: Term) -> list[float] | None:
    """[low, high] of a ranged term."""
    return None if term.low is None else [term.low, term.high]


def explain(terms: tuple[Term, ...], name: str) -> None:
    """Print how a number came about. Raises UnknownName with the nearest."""
    from pycore.cli.explain import explain as chain
    chain(terms, name)


def sentence(text: str) -> None:
    """A remark under a table."""
    output.line(f"  {text}")
