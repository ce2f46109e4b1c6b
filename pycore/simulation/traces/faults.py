"""What can be wrong with a trace file, and where: every fault names the file, the line and the column."""

from pycore.errors import InputError


class TraceError(InputError):
    """A file that cannot be used as a trace.

    `line` and `column_number` count from 1, `column` is the header's name or the JSON key, `offset` counts bytes of the
    (unpacked) file from 0; each None where it does not apply.
    """

    def __init__(self, file: str, value: object, accepted: str, *, line: int | None = None, column: str | None = None,
                 column_number: int | None = None, offset: int | None = None):
        self.file, self.line, self.column, self.column_number, self.offset = file, line, column, column_number, offset
        super().__init__("trace", value, accepted)

    @property
    def place(self) -> str:
        """'requests.csv, line 17, column 2 (ContextTokens)'"""
        parts = [self.file] + ([f"line {self.line:,}"] if self.line is not None else [])
        name = f"{self.column[:40]}" if self.column is not None else ""
        if self.column_number is not None:
            parts.append(f"column {self.column_number}" + (f" ({name})" if name else ""))
        elif name:
            parts.append(f"column {name}")
        return ", ".join(parts + ([f"byte {self.offset:,}"] if self.offset is not None else []))

    def _text(self) -> str:
        if self.value is None:
            return f"{self.place}: {self.accepted}"
        shown = self.value if isinstance(self.value, str) else repr(self.value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        return f"{self.place}: {shown!r} is not accepted; {self.accepted}"

    def as_dict(self) -> dict:
        return super().as_dict() | {"file": self.file, "line": self.line, "column": self.column,
                                    "column_number": self.column_number, "offset": self.offset}
