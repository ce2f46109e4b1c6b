"""Rows that a reader takes along from a page, as CSV."""

from collections.abc import Iterable, Mapping
from typing import Any

from pycore.comma_separated import csv_text
from pycore.ledger import Term

LEDGER = ("name", "value", "unit", "low", "high", "basis", "formula", "substituted", "source", "line", "note")


def table(columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows with these columns, whatever else is in them."""
    return csv_text(columns, (tuple(row[name] for name in columns) for row in rows))


def ledger(terms: Iterable[Term], digits: int = 17) -> str:
    """Explained numbers, each once. `digits`: of the figures, where they come out of arithmetic that differs in its last
    bits from one Python to another."""
    found = (term.as_dict() for term in terms)
    rows = (row | {name: short(row[name], digits) for name in ("value", "low", "high")} for row in found)
    return csv_text(LEDGER, dict.fromkeys(tuple(row[name] for name in LEDGER) for row in rows))


def short(value: Any, digits: int = 6) -> Any:
    """A float with so many significant digits; anything else as it is."""
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
