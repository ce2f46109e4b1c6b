"""Text as its tokens come: all that is sure by now, never half a character; in the end what decoding them at once gives."""

from runtime.mini_infer.words import Words


class Detokeniser:
    """One text. `begun`: other text stands before it, so that a leading space belongs to it."""

    def __init__(self, words: Words, *, begun: bool = False):
        raise NotImplementedError

    def push(self, token: int) -> str:
        """What is sure now and was not before."""
        raise NotImplementedError

    def flush(self) -> str:
        """The rest: U+FFFD for bytes that became no character."""
        raise NotImplementedError
