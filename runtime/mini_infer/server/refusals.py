"""What a client is told when something goes wrong: OpenAI's error object, under the status that belongs to it."""

from collections.abc import Mapping

from starlette.responses import JSONResponse

from pycore.errors import InputError, InvalidQuery, NotKnown, StudioError
from runtime.mini_infer.answers import Full, Unavailable

LONGEST = 1000  # characters of a message or a field's name: a client's own text may be part of it
KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error",
         500: "server_error", 503: "server_error"}


class Refusal(Exception):
    """A request that is answered with an error. `param`: the field at fault; `code`: a word for programs."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None,
                 headers: Mapping[str, str] | None = None):
        self.status, self.message, self.param, self.code, self.headers = status, message, param, code, dict(headers or {})
        super().__init__(message)

    def body(self) -> dict[str, object]:
        """The error object (https://platform.openai.com/docs/guides/error-codes)."""
        kind = KINDS.get(self.status, "invalid_request_error")
        param = None if self.param is None else _sendable(self.param)
        return {"error": {"message": _sendable(self.message), "type": kind, "param": param, "code": self.code}}

    def response(self) -> JSONResponse:
        """It as an HTTP response."""
        return JSONResponse(self.body(), status_code=self.status, headers=self.headers)


def _sendable(text: str) -> str:
    """At most LONGEST characters; half of a surrogate pair, which JSON can say and UTF-8 cannot, written out."""
    return text[:LONGEST].encode("utf-8", "backslashreplace").decode("utf-8")


def refusal(error: StudioError, *, param: str | None = None) -> Refusal:
    """An error of ours as a client is told it; `param` is what the client calls the field, where that differs."""
    if isinstance(error, Full):
        return Refusal(429, str(error), code="queue_full", headers={"Retry-After": str(error.retry_after)})
    if isinstance(error, Unavailable):
        return Refusal(503, f"nobody is served: {error}", code="unavailable", headers={"Retry-After": "5"})
    if isinstance(error, InvalidQuery):
        error = error.errors[0]
    if isinstance(error, InputError):
        field, value = param or error.field, str(error.value)
        shown = value if len(value) <= 80 else value[:77] + "..."
        return Refusal(400, f"{field}: {shown!r} is not accepted; {error.accepted}", param=field, code="invalid_value")
    if isinstance(error, NotKnown):
        return Refusal(400, str(error), param=param or error.field, code="invalid_value")
    return Refusal(500, str(error), code="internal_error")
