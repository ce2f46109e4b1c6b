"""One request's text: tokens in, text out, until a stop string: what `Generation.stop_when` asks."""

from collections.abc import Sequence

from runtime.mini_infer.words import Words


class TextStream:
    """Tokens to text, up to a stop string. `stopped`: the one that was hit."""

    def __init__(self, words: Words, *, stops: Sequence[str] = (), include_stop: bool = False, begun: bool = False):
        self.stopped: str | None = None
        raise NotImplementedError

    def push(self, token: int) -> str:
        """What is sure now and was not before."""
        raise NotImplementedError

    def flush(self) -> str:
        """The rest, at the end of the tokens."""
        raise NotImplementedError
