"""What a reader can take along: weights with codes, formats, the plan and the ledger as CSV, bytes in hexadecimal."""

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from studios.quantbench.charts import rounded

MOST_ROWS = 4096
WEIGHTS = ("index", "row", "column", "weight", "restored", "code")
FORMATS = ("format", "label", "bits_per_weight", "sqnr_db", "frontier", "remark")
PLAN = ("layer", "projection", "configuration", "bytes", "predicted_loss_nats", "fixed")
LEDGER = ("name", "value", "unit", "low", "high", "basis", "formula", "substituted", "source", "line", "note")


def downloads(page: Any) -> dict[str, tuple[str, str]]:
    """File name -> (media type, text)."""
    answer = page.answer
    files = {"ledger.csv": ("text/csv", table(LEDGER, map(ledger, answer.terms)))}
    if answer.bench:
        files["weights.csv"] = ("text/csv", table(WEIGHTS, weights(answer.bench)))
        files["formats.csv"] = ("text/csv", table(FORMATS, formats(page.frontier.rows)))
        files["packed.json"] = ("application/json", json.dumps(packed(answer.bench.inspection), indent=1))
    if answer.plan:
        files["plan.csv"] = ("text/csv", table(PLAN, plan(answer.plan)))
        recipe = answer.plan.commands.recipe or "# nothing of this plan can be said in a recipe\n"
        files["recipe.yaml"] = ("text/plain", recipe)
    return files


def ledger(term: Any) -> dict:
    """A term; figures to 6 digits, so that every Python writes the same text."""
    row = term.as_dict()
    return row | {name: float(f"{row[name]:.6g}") for name in ("value", "low", "high") if isinstance(row[name], float)}


def weights(bench: Any) -> Iterable[dict]:
    """The first weights with what became of them."""
    found = bench.inspection.packed
    for index in range(min(MOST_ROWS, bench.weights.count)):
        row, column = divmod(index, bench.weights.columns)
        yield {"index": index, "row": row, "column": column, "weight": f"{float(bench.weights.values.flat[index]):.6g}",
               "restored": f"{float(bench.inspection.restored.flat[index]):.6g}",
               "code": int(found.codes.flat[found.slot(index)])}


def formats(rows: Iterable[Any]) -> Iterable[dict]:
    """A row a configuration."""
    for one in rows:
        yield {"format": one.name, "label": one.label, "bits_per_weight": rounded(one.bits), "sqnr_db": rounded(one.sqnr),
               "frontier": int(one.best), "remark": one.beaten}


def plan(found: Any) -> Iterable[dict]:
    """A row a projection."""
    for one in found.assigned:
        yield {"layer": one.layer, "projection": one.projection, "configuration": one.choice.configuration,
               "bytes": one.choice.bytes, "predicted_loss_nats": rounded(float(one.choice.loss)), "fixed": int(one.fixed)}


def packed(found: Any) -> dict:
    """The bytes and what they are."""
    return {"format": found.format, "options": dict(found.options), "shape": list(found.packed.shape),
            "bytes": len(found.packed.data), "hex": found.packed.data[:1 << 16].hex()}


def table(columns: tuple[str, ...], rows: Iterable[dict]) -> str:
    """CSV with a head; a text that a spreadsheet would run as a formula gets a leading quote."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([inert(row[name]) for name in columns])
    return out.getvalue()


def inert(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+@") else value
