"""How well it works: predicted against a pasted log, and the errors over all reports that the core was compared with."""

from dataclasses import dataclass
from typing import Any

from pycore.units import binary_bytes, significant
from studios.explain import Ledger, Number, help_field


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One value of the pasted log beside ours."""

    name: str = help_field("what the log reports")
    predicted: Number = help_field("ours")
    actual: str = help_field("the log's")
    difference: str = help_field("actual less predicted, in per cent with its sign")
    close: str = help_field("'yes' within 3 %, 'no' otherwise")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The pasted log, read."""

    rows: tuple[LogLine, ...] = help_field("the values that were found")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTable:
    """One comparison of predictions with what others measured."""

    title: str = help_field("what was compared with what")
    summary: str = help_field("the result in one sentence")
    columns: tuple[str, ...] = help_field("column heads")
    rows: tuple[tuple[str, ...], ...] = help_field("cells as text")
    source: str = help_field("where the measurements come from")


def log_view(answer: Any, ledger: Ledger) -> LogView | None:
    """Predicted against actual, or None where no log was pasted or nothing in it was understood."""
    if not answer.log_rows:
        return None
    ledger.section("From your log")
    return LogView(rows=tuple(log_line(row, ledger) for row in answer.log_rows))


def log_line(row: Any, ledger: Ledger) -> LogLine:
    actual = binary_bytes(row.actual_bytes) if row.predicted.unit == "B" else \
        f"{significant(row.actual_bytes)} {row.predicted.unit}"
    return LogLine(name=row.name, predicted=ledger.number(row.predicted), actual=actual,
                   difference=f"{row.difference_percent:+.1f} %".replace("-", "−"),
                   close="yes" if abs(row.difference_percent) <= 3 else "no")


def error_tables() -> tuple[ErrorTable, ...]:
    """The comparisons that ship with the core."""
    return ()
