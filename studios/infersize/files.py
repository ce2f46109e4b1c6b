"""What a reader can take along: the ledger and the matrix as CSV, the whole answer as JSON."""

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

LEDGER = ("name", "value", "unit", "low", "high", "basis", "formula", "substituted", "source", "line", "note")
MATRIX = ("accelerator_name", "count", "format_name", "fits", "reason", "total_bytes", "usable_bytes", "max_sequences",
          "tpot_s", "tokens_per_s_user", "tokens_per_s_total", "tokens_per_s_per_gpu", "usd_per_million")


def downloads(page: Any) -> dict[str, tuple[str, str]]:
    """File name -> (media type, text)."""
    terms = [term.as_dict() for term in page.answer.terms]
    files = {
        "infersize.json": ("application/json", json.dumps({"fits": page.fits, "terms": terms}, indent=1, default=str)),
        "ledger.csv": ("text/csv", table(LEDGER, terms)),
    }
    if page.answer.matrix:
        files["matrix.csv"] = ("text/csv", table(MATRIX, ({name: getattr(row, name) for name in MATRIX}
                                                          for row in page.answer.matrix)))
    return files


def table(columns: tuple[str, ...], rows: Iterable[dict]) -> str:
    """CSV with a head; a text that a spreadsheet would run as a formula gets a leading quote."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in dict.fromkeys(tuple(inert(row[name]) for name in columns) for row in rows):
        writer.writerow(row)
    return out.getvalue()


def inert(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@") else value
