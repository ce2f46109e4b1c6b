"""Answers on their way out: whole, or as server-sent events; who goes away takes nothing more of the engine's time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable

from fastapi import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from runtime.mini_infer.answers import Answer, Piece
from runtime.mini_infer.server.refusals import Refusal
from runtime.mini_infer.server.shapes import Json, Shape

DONE = b"data: [DONE]\n\n"
# In an event only \n and \r end a line, but clients that split text as Python does (httpx) break it here, too.
BREAKS = str.maketrans({one: f"\\u{ord(one):04x}" for one in "\x85\u2028\u2029"})


async def whole(request: Request, answer: Answer, shape: Shape) -> Response:
    """The answer when all of it is there. Raises Refusal where one of its texts came to no end of its own."""
    async with _Watched(request.receive, answer):
        async for piece in answer:
            check(piece)
            shape.take(piece)
    return JSONResponse(shape.whole())


def check(piece: Piece) -> None:
    """Raise Refusal for an end that is no text's own."""
    if piece.finish == "error":
        raise Refusal(500, f"the request has failed: {piece.reason}", code="generation_failed")
    if piece.finish == "refused":
        raise Refusal(503, f"the request was given up: {piece.reason}", code="given_up", headers={"Retry-After": "1"})
    if piece.finish == "aborted":
        raise Refusal(503, "the server is shutting down, and the request with it", code="unavailable")


class EventStream(Response):
    """A stream of server-sent events, one JSON object each, closed by [DONE]; an error is one of them."""

    media_type = "text/event-stream"

    def __init__(self, answer: Answer, shape: Shape):
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.answer, self.shape = answer, shape

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with _Watched(receive, self.answer):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                async for event in self._events():
                    await send({"type": "http.response.body", "body": event, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except OSError:  # the client has gone; what it asked for is dropped on the way out
                return

    async def _events(self) -> AsyncIterator[bytes]:
        yield _events(self.shape.opening())
        try:
            async for piece in self.answer:
                check(piece)
                self.shape.take(piece)
                if event := _events(self.shape.chunks(piece)):
                    yield event
        except Refusal as refusal:
            yield _events([refusal.body()])
        else:
            yield _events(self.shape.closing())
        yield DONE


def _events(objects: Iterable[Json]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(one, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
                    .translate(BREAKS).encode() for one in objects)


class _Watched:
    """While an answer goes out: a client that disconnects aborts it, and so does every other way out of here."""

    def __init__(self, receive: Callable, answer: Answer):
        self.receive, self.answer = receive, answer

    async def __aenter__(self) -> None:
        self.watch = asyncio.create_task(self._watch())

    async def __aexit__(self, *error: object) -> None:
        self.watch.cancel()
        self.answer.abort()

    async def _watch(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.answer.abort()
