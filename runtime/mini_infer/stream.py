"""One request's text: tokens in, text out, until a stop string."""

from collections import deque
from collections.abc import Sequence

from runtime.mini_infer.detokenise import Detokeniser
from runtime.mini_infer.stops import StopStrings
from runtime.mini_infer.words import Words


class TextStream:
    """Tokens to text, up to a stop string. `stopped`: the one that was hit, None so far; `ended`: the token of `end`.

    `include_stop`: the text ends with it. `min_tokens`: only the text of later tokens is searched, and only a later token
    ends it. `begun`: the text goes on from a raw prompt. `count`: tokens so far. `hear` and `take` are for tokens that come
    before anybody asks for their text, `push` for those whose text is wanted at once.
    """

    __slots__ = ("detokeniser", "watch", "stopped", "end", "ended", "min_tokens", "count", "parts")

    def __init__(self, words: Words, *, stops: Sequence[str] = (), end: Sequence[int] = (), include_stop: bool = False,
                 min_tokens: int = 0, begun: bool = False):
        self.detokeniser = Detokeniser(words, begun=begun)
        self.watch = StopStrings(stops, include=include_stop)
        self.stopped: str | None = None
        self.end = end
        self.ended: int | None = None
        self.min_tokens, self.count = min_tokens, 0
        self.parts: deque[str] = deque()

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

    def hear(self, token: int) -> bool:
        """For `Generation.stop_when`: take a token and keep its text; whether a stop string ends the text there. A token of
        `end` is no part of the text; that it ends it the engine knows itself."""
        if token in self.end and self.count + 1 >= self.min_tokens:
            self.count, self.ended = self.count + 1, token
            self.parts.append("")
        else:
            self.parts.append(self.push(token))
        return self.stopped is not None

    def take(self) -> str:
        """What the next of the tokens that were heard made sure."""
        return self.parts.popleft()
