"""One request's text: tokens in, text out, until a stop string."""

from collections.abc import Sequence

from runtime.mini_infer.detokenise import Detokeniser
from runtime.mini_infer.stops import StopStrings
from runtime.mini_infer.words import Words


class TextStream:
    """Tokens to text, up to a stop string. `stopped`: the one that was hit, None so far.

    `include_stop`: the text ends with it. `min_tokens`: only the text of later tokens is searched. `begun`: the text goes on
    from a raw prompt. `ready`: text that `take` has not been asked for, where tokens come by `ends_with`.
    """

    __slots__ = ("detokeniser", "watch", "stopped", "min_tokens", "count", "ready")

    def __init__(self, words: Words, *, stops: Sequence[str] = (), include_stop: bool = False, min_tokens: int = 0,
                 begun: bool = False, specials: bool = False):
        self.detokeniser = Detokeniser(words, begun=begun, specials=specials)
        self.watch = StopStrings(stops, include=include_stop)
        self.stopped: str | None = None
        self.min_tokens, self.count, self.ready = min_tokens, 0, ""

    def push(self, token: int) -> str:
        """What is sure now and was not before. Nothing once it has stopped."""
        if self.stopped is not None:
            return ""
        self.count += 1
        return self._watched(self.detokeniser.push(token))

    def _watched(self, text: str) -> str:
        if self.count < self.min_tokens:
            return text
        sure, self.stopped = self.watch.push(text)
        return sure

    def flush(self) -> str:
        """The rest, at the end of the tokens; a stop may be hit in it."""
        if self.stopped is not None:
            return ""
        sure = self._watched(self.detokeniser.flush())
        return sure + self.watch.flush()

    def ends_with(self, token: int) -> bool:
        """For `Generation.stop_when`: take a token, keep its text ready, say whether it was the last."""
        self.ready += self.push(token)
        return self.stopped is not None

    def take(self, *, last: bool = False) -> str:
        """The text that is ready; `last`: with the rest, no token comes any more."""
        text, self.ready = self.ready + (self.flush() if last else ""), ""
        return text
