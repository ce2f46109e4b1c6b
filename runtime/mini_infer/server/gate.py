"""What every request passes: its id, the key where one is asked for, and the last line of defence against our own faults."""

import hmac
import logging
import re
import secrets
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.mini_infer.server.refusals import Refusal

OPEN = ("/health", "/metrics")  # for probes and Prometheus, which say nothing of anybody's text
NAME = re.compile(r"[\x21-\x7e]{1,128}")
LOG = logging.getLogger("mini_infer")


class Gate:
    """ASGI middleware. A client's own `X-Request-Id` is kept where it is printable ASCII of at most 128 characters."""

    def __init__(self, app: ASGIApp, *, keys: Sequence[str] = ()):
        self.app, self.keys = app, tuple(key.encode() for key in keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        name = given if NAME.fullmatch(given) else secrets.token_hex(16)
        scope.setdefault("state", {})["request_id"] = name
        begun = False

        async def named(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                MutableHeaders(scope=message)["X-Request-Id"] = name
            await send(message)

        try:
            if self.keys and scope["path"] not in OPEN:
                self._check(Headers(scope=scope).get("authorization", ""))
            await self.app(scope, receive, named)
        except Refusal as refusal:
            await refusal.response()(scope, receive, named)
        except ClientDisconnect:  # gone before all of the request had come: nobody is there to be told anything
            return
        except Exception:
            LOG.exception("request %s", name)
            if begun:
                raise
            await Refusal(500, f"a fault of the server; its log says more of request {name}",
                          code="internal_error").response()(scope, receive, named)

    def _check(self, header: str) -> None:
        """Raise Refusal where the key is missing or wrong; every key is compared, each in constant time."""
        kind, _, given = header.partition(" ")
        fits = [hmac.compare_digest(given.strip().encode("latin-1"), key) for key in self.keys]
        if kind.lower() != "bearer" or not any(fits):
            raise Refusal(401, "the API key is missing or wrong: Authorization: Bearer KEY", code="invalid_api_key",
                          headers={"WWW-Authenticate": "Bearer"})
