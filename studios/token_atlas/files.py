"""What a reader can take along: the matrix, the bill, the tokens and the ledger as CSV, the answer as JSON."""

import json
from collections.abc import Iterable
from typing import Any

from studios.tables import ledger, short, table

MATRIX = ("language", "name", "script", "family", "tokenizer", "exact", "tokens", "measure", "value", "low", "high")
BILL = ("model", "tokenizer", "exact", "language", "requests", "input_tokens", "output_tokens", "usd", "tax")
TOKENS = ("tokenizer", "place", "id", "bytes_hex", "start", "end")


def downloads(page: Any) -> dict[str, tuple[str, str]]:
    """File name -> (media type, text)."""
    answer = page.answer
    terms = [term.as_dict() for term in answer.terms]
    return {
        "token-atlas.json": ("application/json", json.dumps(
            {"text": answer.text, "counts": {one.name: one.tokens.value for one in answer.live},
             "ids": {one.name: list(one.ids) for one in answer.live}, "terms": terms}, indent=1, default=str)),
        "matrix.csv": ("text/csv", table(MATRIX, matrix(answer.matrix))),
        "tokens.csv": ("text/csv", table(TOKENS, tokens(answer.live))),
        "bill.csv": ("text/csv", table(BILL, bill(answer.bill))),
        "ledger.csv": ("text/csv", ledger(answer.terms, 6)),
    }


def matrix(grid: Any) -> Iterable[dict]:
    """A row a cell."""
    exact = {one.name: int(one.exact) for one in grid.columns}
    for line in grid.rows:
        spoken = line.language
        for one in line.cells:
            yield {"language": one.language, "name": spoken.name, "script": spoken.script_name, "family": spoken.family,
                   "tokenizer": one.tokenizer, "exact": exact[one.tokenizer], "tokens": one.tokens, "measure": grid.measure,
                   "value": short(one.value), "low": short(one.low), "high": short(one.high)}


def tokens(live: Iterable[Any]) -> Iterable[dict]:
    """A row a token."""
    for one in live:
        for place, piece in enumerate(one.pieces):
            yield {"tokenizer": one.name, "place": place, "id": piece.id, "bytes_hex": piece.hex, "start": piece.start,
                   "end": piece.end}


def bill(found: Any) -> Iterable[dict]:
    """A row a model and language."""
    for one in found.models:
        for line in one.lines:
            yield {"model": one.priced.model, "tokenizer": one.priced.tokenizer, "exact": int(one.priced.exact),
                   "language": line.language.code, "requests": short(line.requests.value),
                   "input_tokens": short(line.input_tokens.value), "output_tokens": short(line.output_tokens.value),
                   "usd": short(line.cost.value), "tax": short(line.tax.value)}
