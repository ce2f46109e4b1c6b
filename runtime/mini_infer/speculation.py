"""Speculation: guess tokens ahead, verify them in one pass, keep exactly what the model itself would have said."""

from dataclasses import dataclass

from pycore.errors import InputError
from runtime.mini_infer.model import Model

MOST_TOKENS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How an engine guesses. Raises InputError for counts out of range.

    tokens    guesses for each decoding sequence in a step, at most
    draft     the model that guesses; None: what followed the last time that the text's last tokens came (prompt lookup)
    longest   of those last tokens so many are looked up, then fewer
    """

    tokens: int = 4
    draft: Model | None = None
    longest: int = 3

    def __post_init__(self):
        for name, most in (("tokens", MOST_TOKENS), ("longest", 16)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(name, value, f"a whole number from 1 to {most}")
