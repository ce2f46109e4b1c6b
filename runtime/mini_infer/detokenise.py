"""Text as its tokens come: all that is sure by now, never half a character; in the end what decoding them at once gives."""

from runtime.mini_infer.words import Words


class Detokeniser:
    """One text, without special tokens. `begun`: other text stands before it, so that a leading space belongs to it."""

    __slots__ = ("words", "stream")

    def __init__(self, words: Words, *, begun: bool = False):
        self.words = words
        self.stream = words.pieces.stream(begun=begun)

    def push(self, token: int) -> str:
        """What is sure now and was not before."""
        piece = self.words.piece(token)
        return "" if piece is None else self.stream.push(piece)

    def flush(self) -> str:
        """The rest: U+FFFD for bytes that became no character."""
        return self.stream.flush()
