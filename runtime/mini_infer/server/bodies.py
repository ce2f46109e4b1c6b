"""A request's body: no larger than allowed, in time, UTF-8, JSON, an object."""

import asyncio
import json
from collections.abc import Iterator

from fastapi import Request

from runtime.mini_infer.server.refusals import Refusal

READ_WITHIN_S = 60


async def read(request: Request, most_bytes: int) -> dict[str, object]:
    """The object that a request carries. Raises Refusal: 400, 408, 413, 415."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # a page of another origin can send anything else without asking first
        raise Refusal(415, f"Content-Type is {kind[:80]!r}; accepted: application/json", code="unsupported_media_type")
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            body = await _bytes(request, most_bytes)
    except TimeoutError:
        raise Refusal(408, f"the body did not come within {READ_WITHIN_S} s", code="timeout") from None
    return parsed(body)


async def _bytes(request: Request, most_bytes: int) -> bytes:
    told = request.headers.get("content-length", "0")
    too_large = Refusal(413, f"the body is larger than the {most_bytes} bytes that are accepted", code="body_too_large",
                        headers={"Connection": "close"})
    if told.isascii() and told.isdigit() and int(told[:20]) > most_bytes:
        raise too_large
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise too_large
        parts.append(part)
    return b"".join(parts)


def parsed(body: bytes) -> dict[str, object]:
    """The object in a body. Raises Refusal."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}", param="body",
                      code="invalid_utf8") from None
    try:
        found = json.loads(text, parse_constant=_no_constant)
        half = next(_halves(found, ""), None) if "\\ud" in text.lower() else None
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {str(error)[:200]}", param="body", code="invalid_json") from None
    if half is not None:
        raise Refusal(400, f"{half}: holds half of a surrogate pair, which is no character", param=half, code="invalid_utf8")
    if not isinstance(found, dict):
        raise Refusal(400, f"the body is a JSON {type(found).__name__}; accepted: an object", param="body",
                      code="invalid_json")
    return found


def _halves(value: object, place: str) -> Iterator[str]:
    """Where a text holds what JSON can say and UTF-8 cannot: 'messages[0].content'."""
    if isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            yield place
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _halves(one, f"{place}[{index}]")
    elif isinstance(value, dict):
        for name, one in value.items():
            inner = f"{place}.{name}" if place else name
            yield from _halves(name, inner)
            yield from _halves(one, inner)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
