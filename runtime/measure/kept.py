"""Rows measured so far, so that a run that was stopped goes on."""

import json
from typing import Any

from pycore.cache import place, put


class Kept:
    """Rows by key in a file of the cache folder, whose name is given. Those that were kept under another `identity` (of
    model, text, machine, torch: whatever must be the same) do not count."""

    def __init__(self, name: str, identity: str):
        self.path, self.identity = place(name), identity
        self._rows = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> Any:
        """A row, or rows; None where there is none."""
        found = self._rows.get(key)
        return found["row"] if found and found["identity"] == self.identity else None

    def put(self, key: str, row: dict | list) -> None:
        """Keep it, at once."""
        self._rows[key] = {"identity": self.identity, "row": row}
        put(self.path, json.dumps(self._rows, indent=0).encode())

    def forget(self) -> None:
        """Keep nothing, of any identity."""
        self._rows = {}
        self.path.unlink(missing_ok=True)
