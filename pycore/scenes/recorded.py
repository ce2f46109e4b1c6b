"""A file of events that an engine wrote, played on the same stage as every other scene."""

from pycore.errors import InputError
from pycore.scenes.film import Film


def film(text: str) -> Film:
    """The film of a file's text. Raises InputError."""
    raise InputError("events", text[:40], "accepted: a file that an engine wrote with --events FILE")
