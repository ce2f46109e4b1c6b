"""Write a table, or check that the committed one is what the generator gives: the two modes of every generator."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Rows as CSV with '\\n' line ends; None becomes an empty cell, floats keep their shortest exact form."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if row[column] is None else row[column] for column in columns])
    return out.getvalue()


def jsonl_text(rows: Iterable[Mapping[str, object]]) -> str:
    """Rows as JSON lines, keys in the order given."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def settle(files: Mapping[str, str], *, check: bool) -> int:
    """Write each file (path from the repository root -> text), or compare. Exit status, 1 on a difference."""
    differing = []
    for name, text in files.items():
        path = ROOT / name
        if check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                differing.append(name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
    for name in differing:
        print(f"differs from what the generator gives: {name}", file=sys.stderr)
    print(f"{len(files) - len(differing)} of {len(files)} files {'as generated' if check else 'written'}")
    return 1 if differing else 0
