"""Comma-separated values that are the same in every Python and that no spreadsheet runs."""

import csv
from collections.abc import Iterable
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Lines(list[str]):
    """Rows as the csv module writes them, without their ends.

    It is told to end rows with CR LF, since before Python 3.13 it quotes a line end only where it ends rows itself: an id
    with a bare CR would be two rows, and files would not be the same in every Python.
    """

    def write(self, row: str) -> None:
        self.append(row.removesuffix("\r\n"))


def csv_text(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    """Comma-separated values with a header, rows ended by LF; None is empty."""
    lines = Lines()
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([inert(value) for value in row] for row in rows)
    return "\n".join(lines) + "\n"


def inert(value: object) -> object:
    """A text that a spreadsheet would run as a formula gets a quote in front."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
