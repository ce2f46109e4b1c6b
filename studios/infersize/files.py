"""What a reader can take along: the ledger and the matrix as CSV, the whole answer as JSON."""

import json
from typing import Any

from studios.tables import ledger, table

MATRIX = ("accelerator_name", "count", "format_name", "fits", "reason", "total_bytes", "usable_bytes", "max_sequences",
          "tpot_s", "tokens_per_s_user", "tokens_per_s_total", "tokens_per_s_per_gpu", "usd_per_million")


def downloads(page: Any) -> dict[str, tuple[str, str]]:
    """File name -> (media type, text)."""
    terms = [term.as_dict() for term in page.answer.terms]
    files = {
        "infersize.json": ("application/json", json.dumps({"fits": page.fits, "terms": terms}, indent=1, default=str)),
        "ledger.csv": ("text/csv", ledger(page.answer.terms)),
    }
    if page.answer.matrix:
        files["matrix.csv"] = ("text/csv", table(MATRIX, ({name: getattr(row, name) for name in MATRIX}
                                                          for row in page.answer.matrix)))
    return files
