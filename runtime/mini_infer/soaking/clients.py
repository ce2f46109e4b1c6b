"""Clients of every kind: patient ones, those who leave in the middle, those who send nonsense or half of it."""

import asyncio
import json
import socket
import struct

import httpx

from runtime.mini_infer.soaking.asks import Asked
from runtime.mini_infer.soaking.findings import Findings
from runtime.mini_infer.soaking.hearing import Hearing, refusal_fault

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time: closing resets the connection
TOO_LARGE = 413


class Clients:
    """Sends requests to a server, tells findings what became of them. Each has to be over within `deadline_s` seconds."""

    def __init__(self, http: httpx.AsyncClient, port: int, findings: Findings, deadline_s: float):
        self.http, self.port, self.findings, self.deadline_s = http, port, findings, deadline_s
        self.ways = {"whole": self._whole, "malformed": self._whole, "stream": self._stream, "leaves": self._stream,
                     "hangs up": self._hangs_up, "is gone": self._is_gone, "half a body": self._is_gone, "look": self._look}

    async def send(self, asked: Asked) -> None:
        """One request, from beginning to end."""
        self.findings.count("requests")
        self.findings.count(asked.way)
        try:
            async with asyncio.timeout(self.deadline_s):
                await self.ways[asked.way](asked)
        except TimeoutError:
            self.findings.fault("hang", f"no end within {self.deadline_s} s: {asked.shown()}")
        except (httpx.HTTPError, OSError) as error:
            if TOO_LARGE not in asked.statuses:  # the server need not hear such a body to its end
                self.findings.fault("connection", f"{type(error).__name__}: {error}: {asked.shown()}")
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self.findings.fault("wrong answer", f"cannot be read, {type(error).__name__}: {error}: {asked.shown()}")

    def _post(self, asked: Asked) -> httpx.Request:
        return self.http.build_request("POST", asked.path, content=asked.content, headers={"Content-Type": asked.kind})

    def _answered(self, asked: Asked, answer: httpx.Response, body: bytes) -> bool:
        """Whether it was served; whether it might be answered so is seen to."""
        status = answer.status_code
        self.findings.count(f"status {status}")
        if status not in asked.statuses:
            self.findings.fault("wrong status", f"{status}: {body[:300]!r}: {asked.shown()}")
        elif status == 429 and not answer.headers.get("retry-after", "").isdigit():
            self.findings.fault("wrong answer", f"429 without Retry-After: {asked.shown()}")
        elif status in (400, 404, TOO_LARGE, 415, 429) and (fault := refusal_fault(body)):
            self.findings.fault("wrong answer", f"{fault}: {asked.shown()}")
        return status == 200

    def _judge(self, asked: Asked, hearing: Hearing, *, over: bool) -> None:
        self.findings.count("texts" if over else "texts begun", len(hearing.texts))
        if over and asked.expected:
            for label in filter(None, ("greedy texts", asked.known[0].manner.label)):
                self.findings.count(label, len(asked.expected))
        for fault in hearing.faults() if over else hearing.begun():
            self.findings.fault("wrong output", f"{fault}: {asked.shown()}")

    async def _whole(self, asked: Asked) -> None:
        answer = await self.http.send(self._post(asked))
        if self._answered(asked, answer, answer.content) and asked.known:
            hearing = Hearing(asked)
            hearing.take(json.loads(answer.content))
            self._judge(asked, hearing, over=True)

    async def _look(self, asked: Asked) -> None:
        answer = await self.http.get(asked.path)
        self._answered(asked, answer, answer.content)

    async def _stream(self, asked: Asked) -> None:
        answer = await self.http.send(self._post(asked), stream=True)
        try:
            if answer.status_code != 200:
                self._answered(asked, answer, await answer.aread())
                return
            self._answered(asked, answer, b"")
            await self._listen(asked, answer)
        finally:
            await answer.aclose()

    async def _listen(self, asked: Asked, answer: httpx.Response) -> None:
        hearing, lines, done = Hearing(asked), 0, False
        async for line in answer.aiter_lines():
            if asked.way == "leaves" and lines >= asked.patience:
                self._judge(asked, hearing, over=False)
                return
            if done and line:
                raise ValueError(f"something after the end: {line[:200]!r}")
            done = done or hearing.line(line)
            lines += bool(line)
        if not done:
            raise ValueError("the stream breaks off")
        self._judge(asked, hearing, over=True)

    async def _hangs_up(self, asked: Asked) -> None:
        """It waits a little, then closes the connection."""
        try:
            async with asyncio.timeout(asked.patience):
                await self._whole(asked)
        except TimeoutError:
            self.findings.count("cancelled")

    async def _is_gone(self, asked: Asked) -> None:
        """It sends its request, or half of it, and does not wait; the connection is reset or closed."""
        half = asked.way == "half a body"
        content = asked.content
        head = (f"POST {asked.path} HTTP/1.1\r\nHost: here\r\nContent-Type: {asked.kind}\r\n"
                f"Content-Length: {len(content)}\r\n\r\n").encode()
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(head + (content[:len(content) // 2] if half else content))
            await writer.drain()
            if len(content) % 2:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        finally:
            writer.close()
