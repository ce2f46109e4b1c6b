"""How well it works: predicted against a pasted log, and the errors over all reports the core was compared with."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from pycore.roofline import evidence as speed_evidence
from pycore.units import binary_bytes, show, significant
from pycore.vram import evidence as memory_evidence
from studios.explain import Ledger, Number, help_field

QUANTITIES = {"tpot": "time per output token", "ttft": "time to first token", "prompt": "prefill", "decode": "decode"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One value of the pasted log beside ours."""

    name: str = help_field("what the log reports")
    predicted: Number = help_field("ours")
    actual: str = help_field("the log's")
    difference: str = help_field("actual less predicted, in per cent with its sign")
    inside: bool = help_field("whether the log's value lies in the range that we show")


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
    wordy: bool = help_field("whether most columns hold words")
    rows: tuple[tuple[Markup, ...], ...] = help_field("cells, escaped once: they are the same for every question")
    note: str = help_field("a remark under it: sources, exceptions; or ''")


def log_view(answer: Any, ledger: Ledger) -> LogView | None:
    """Predicted against actual, or None where no log was pasted or nothing in it was understood."""
    if not answer.log_rows:
        return None
    ledger.section("From your log")
    return LogView(rows=tuple(log_line(row, ledger) for row in answer.log_rows))


def log_line(row: Any, ledger: Ledger) -> LogLine:
    return LogLine(name=row.name, predicted=ledger.number(row.predicted), actual=show(row.actual, row.predicted.unit),
                   difference=signed(row.difference_percent), inside=row.inside)


def signed(percent: float, digits: int = 1) -> str:
    """A difference with its sign: '+0.4 %', '−1.8 %'."""
    return f"{percent:+.{digits}f} %".replace("-", "−")


@functools.cache
def error_tables() -> tuple[ErrorTable, ...]:
    """The comparisons that ship with the core: memory against start-up logs, speed against measured runs."""
    return (memory_summary(), memory_logs(), speed_runs())


def escaped(rows: Iterable[tuple[str, ...]]) -> tuple[tuple[Markup, ...], ...]:
    return tuple(tuple(map(escape, row)) for row in rows)


def memory_summary() -> ErrorTable:
    """Errors of the byte ledger by quantity, on logs that no constant was fitted on."""
    held_out = memory_evidence.summaries(fitted=False)
    pool = next(row for row in held_out if row.quantity == "KV pool")
    return ErrorTable(
        title="Memory against engines' own start-up logs",
        summary=f"KV pool: median error {significant(pool.median_absolute_percent, 2)} % on {pool.rows} logs that "
                f"nothing was fitted on; {pool.inside} of {pool.rows} lie inside the range shown.",
        columns=("Quantity", "Logs", "Median error", "Worst", "Inside the range shown"), wordy=False,
        rows=escaped((row.quantity, f"{row.rows}", f"{significant(row.median_absolute_percent, 2)} %",
                    signed(row.worst_percent), f"{row.inside} of {row.rows}") for row in held_out),
        note="Nothing is left out: the worst rows are listed below with what is known about them.")


def memory_logs() -> ErrorTable:
    """Every log's KV pool, the largest error last."""
    rows = sorted((row for row in memory_evidence.evidence() if row.quantity == "KV pool"),
                  key=lambda row: (abs(row.error_percent), row.id))
    return ErrorTable(
        title="Each log's KV pool", summary=f"{len(rows)} logs, the closest first; 'fitted' says that the overhead "
        "constants were fitted on it.",
        columns=("Model, set-up", "Engine", "Card", "Predicted", "Logged", "Error", "Source"), wordy=True,
        rows=escaped((f"{row.model}, {row.setup}", f"{row.engine} {row.version}", row.card,
                      binary_bytes(row.predicted), binary_bytes(row.reported), signed(row.error_percent),
                      "; ".join(filter(None, ("fitted" if row.fitted else "", row.note, row.source)))) for row in rows),
        note="")


def speed_runs() -> ErrorTable:
    """Errors of predicted times by quantity and engine, beside those of the plain roofline."""
    kept = [row for row in speed_evidence.evidence() if row.generation == "all" and row.engine != "all"]
    return ErrorTable(
        title="Speed against measured runs",
        summary="Runs of whole engines that nothing was fitted on, beside what the datasheet alone would say (the "
                "plain roofline).",
        columns=("Quantity", "Engine", "Runs", "Median error", "90 % within", "Plain roofline, median"), wordy=False,
        rows=escaped((QUANTITIES.get(row.quantity, row.quantity), row.engine, f"{row.rows:,}",
                    f"{row.median_error_pct:g} %", f"{row.p90_error_pct:g} %",
                    "–" if row.roofline_error_pct is None else f"{row.roofline_error_pct:g} %") for row in kept),
        note="Sources: " + "; ".join(dict.fromkeys(row.source for row in kept)) + ".")
