"""What can go wrong, as one tree. Each error is plain data, so a CLI prints it and a page puts it at its field.

    StudioError
    |-- InputError          one field: what was given, what is accepted
    |   `-- UnknownName     a name that no table holds; carries the nearest ones
    |-- InvalidQuery        every InputError of one question together
    |-- ConfigError         a model configuration that is not understood: what was, what is missing
    |-- NotKnown            a fact the catalogue lacks; we refuse rather than invent it
    `-- SourceError         something outside (a file, the Hub) did not answer as it should
"""

from collections.abc import Sequence


class StudioError(Exception):
    """Base of every expected error. `as_dict()` is what crosses to a page or to `--json`."""

    field: str | None = None

    def as_dict(self) -> dict:
        return {"kind": type(self).__name__, "field": self.field, "message": str(self)}


class InputError(StudioError):
    """One field holds a value that cannot be used; the message names field, value and what is accepted."""

    def __init__(self, field: str, value: object, accepted: str, suggestions: Sequence[str] = ()):
        self.field, self.value, self.accepted, self.suggestions = field, value, accepted, tuple(suggestions)
        super().__init__(self._text())

    def _text(self) -> str:
        shown = str(self.value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        text = f"{self.field.replace('_', ' ')}: {shown!r} is not accepted; {self.accepted}"
        return text + (f". Did you mean {', '.join(self.suggestions)}?" if self.suggestions else "")

    def as_dict(self) -> dict:
        return super().as_dict() | {"value": str(self.value), "accepted": self.accepted,
                                    "suggestions": list(self.suggestions)}


class UnknownName(InputError):
    """A name that a table does not hold. `suggestions` are the nearest names it does hold."""


class InvalidQuery(StudioError):
    """All the faults of one question, so that a form can mark every field at once."""

    def __init__(self, errors: Sequence[InputError]):
        self.errors = tuple(errors)
        super().__init__("; ".join(str(error) for error in self.errors))

    def as_dict(self) -> dict:
        return super().as_dict() | {"errors": [error.as_dict() for error in self.errors]}


class ConfigError(StudioError):
    """A model configuration (config.json) that is not understood.

    `understood` maps the fields that were read to their values; `missing` lists what a sizing needs and did not find.
    """

    field = "config"

    def __init__(self, message: str, understood: dict[str, object] | None = None, missing: Sequence[str] = ()):
        self.understood, self.missing = dict(understood or {}), tuple(missing)
        detail = f"; missing: {', '.join(self.missing)}" if self.missing else ""
        read = ", ".join(f"{key} = {value}" for key, value in self.understood.items())
        super().__init__(f"{message}{detail}" + (f"; understood: {read}" if read else ""))

    def as_dict(self) -> dict:
        return super().as_dict() | {"understood": {k: str(v) for k, v in self.understood.items()},
                                    "missing": list(self.missing)}


class NotKnown(StudioError):
    """A fact that no source gave. `field` names the question's field that led here, if one did."""

    def __init__(self, message: str, field: str | None = None):
        self.field = field
        super().__init__(message)


class SourceError(StudioError):
    """A file or a service outside this program failed: not found, too large, gated, slow, or not what it said."""

    def __init__(self, source: str, message: str, field: str | None = None):
        self.source, self.field = source, field
        super().__init__(f"{source}: {message}")
