"""Stop strings in a text that comes in pieces: what could still become one is held back."""

from collections.abc import Sequence


class StopStrings:
    """Watches one text for `stops`. `include`: the stop that was found is part of the text."""

    def __init__(self, stops: Sequence[str], *, include: bool = False):
        raise NotImplementedError

    def push(self, text: str) -> tuple[str, str | None]:
        """(text that is sure now, the stop that was hit or None). Nothing comes after a hit."""
        raise NotImplementedError

    def flush(self) -> str:
        """What was held back, where no stop came of it."""
        raise NotImplementedError
