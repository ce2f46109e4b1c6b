"""What a reader can take along: weights with codes, formats, the plan and the ledger as CSV, bytes in hexadecimal."""

import json
from collections.abc import Iterable
from typing import Any

from studios.quantbench.charts import rounded
from studios.tables import ledger, short, table

MOST_ROWS = 4096
WEIGHTS = ("index", "row", "column", "weight", "restored", "code")
FORMATS = ("format", "label", "bits_per_weight", "sqnr_db", "frontier", "remark")
PLAN = ("layer", "projection", "configuration", "bytes", "predicted_loss_nats", "fixed")


def downloads(page: Any) -> dict[str, tuple[str, str]]:
    """File name -> (media type, text)."""
    answer = page.answer
    files = {"ledger.csv": ("text/csv", ledger(answer.terms, 6))}
    if answer.bench:
        files["weights.csv"] = ("text/csv", table(WEIGHTS, weights(answer.bench)))
        files["formats.csv"] = ("text/csv", table(FORMATS, formats(page.frontier.rows)))
        files["packed.json"] = ("application/json", json.dumps(packed(answer.bench.inspection), indent=1))
    if answer.plan:
        files["plan.csv"] = ("text/csv", table(PLAN, plan(answer.plan)))
        recipe = answer.plan.commands.recipe or "# nothing of this plan can be said in a recipe\n"
        files["recipe.yaml"] = ("text/plain", recipe)
    return files


def weights(bench: Any) -> Iterable[dict]:
    """The first weights with what became of them."""
    found = bench.inspection.packed
    for index in range(min(MOST_ROWS, bench.weights.count)):
        row, column = divmod(index, bench.weights.columns)
        yield {"index": index, "row": row, "column": column, "weight": short(float(bench.weights.values.flat[index])),
               "restored": short(float(bench.inspection.restored.flat[index])),
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
