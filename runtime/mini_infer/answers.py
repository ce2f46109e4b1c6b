"""What is asked of the engine's thread and what comes back: asks, pieces, answers, and who watches."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from pycore.errors import StudioError
from runtime.mini_infer.generation import GREEDY, Finish
from runtime.mini_infer.sampling import Choice, Sampling


class Full(StudioError):
    """No place in the queue now; `retry_after` seconds from now there may be."""

    def __init__(self, waiting: int, retry_after: int):
        self.retry_after = retry_after
        super().__init__(f"{waiting} requests are waiting, and the queue holds no more; try again in {retry_after} s")


class Unavailable(StudioError):
    """Nobody is served any more: it is ending, or broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One prompt and what is wanted of it. `end`: tokens that end a text; `stops`: strings that do.

    `samples` texts are made of it; with a seed, text i has seed + i. `begun`: the text goes on from the prompt's, so that a
    leading space is part of it.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    min_tokens: int = 0
    samples: int = 1
    end: tuple[int, ...] = ()
    sampling: Sampling = GREEDY
    stops: tuple[str, ...] = ()
    include_stop: bool = False
    begun: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What came of text `index` (prompts x samples, samples of a prompt together): a token and the text that it made sure
    (none, where half a character or half a stop is held back), the end, or both. `stop`: the string or token that ended it;
    `reason`: words on an end that is none of the text's own."""

    index: int
    text: str = ""
    choice: Choice | None = None
    finish: Finish | None = None
    stop: str | int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One text that is over; seconds since it was asked for, None for what never came. `samples`: how many texts its prompt
    was asked for; None of all but the first of them, so that it is counted once a prompt."""

    finish: Finish
    prompt_tokens: int
    max_tokens: int
    samples: int | None
    tokens: int
    seconds: float
    scheduled: float | None
    first_token: float | None


class Watcher:
    """Told, on the engine's thread, what happens; does nothing with it."""

    def step(self, tokens: int) -> None:
        """A step has computed so many tokens."""

    def token(self, seconds: float, *, first: bool) -> None:
        """A token came so long after the one before it; the first one, after it was asked for."""

    def over(self, record: Record) -> None:
        """A text is over."""


class Answer:
    """What comes of one submission, to be read once: `async for piece in answer`. Belongs to the event loop.

    `cached[i]`: tokens of prompt i that were found in the prefix cache, known with its end. `drop` lets the engine forget
    it, `left` is told of each text that is over, with the seconds that it took (None: it came to no end of its own).
    """

    def __init__(self, asks: Sequence[Ask], *, drop: Callable[["Answer"], None], left: Callable[[float | None], None]):
        self.asks, self.drop, self.left = tuple(asks), drop, left
        self.count = sum(ask.samples for ask in asks)
        self.cached = [0] * len(self.asks)
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self.open = self.unread = self.count
        self.asked_ns = 0  # on the engine's clock; set when it is asked

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        if not self.unread:
            raise StopAsyncIteration
        piece = await self.pieces.get()
        self.unread -= piece.finish is not None
        return piece

    def abort(self) -> None:
        """Drop what is not over; blocks are free before the next step. Its texts end as "aborted"."""
        if self.open:
            self.drop(self)

    def ended(self, piece: Piece, seconds: float | None) -> None:
        """One of its texts is over with this piece; `seconds` is what it took, where it came to an end of its own."""
        self.open -= 1
        self.pieces.put_nowait(piece)
        self.left(seconds)

    def decided(self, error: Exception | None) -> None:
        """The engine has let it in, or has not; who waits for that goes on, unless it has gone."""
        if error is not None:
            for _ in range(self.open):
                self.left(None)
            self.open = self.unread = 0
        if self.accepted.done():
            return
        if error is None:
            self.accepted.set_result(None)
        else:
            self.accepted.set_exception(error)
