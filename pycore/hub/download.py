"""Reading small pieces of files over HTTP from a server that may be absent, slow, huge, gated or lying.

Standard library only, loaded when first used. Every failure is a SourceError that says what to do; a file that is not
there is `Missing`. Nothing is written to disk, at most `limit` bytes are ever held, and the whole exchange, dribbling
servers included, ends at a deadline.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from pycore.errors import SourceError

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.error import HTTPError
    from urllib.request import Request

DEADLINE_S = 20.0
MOST_REDIRECTS = 5
CHUNK = 1 << 16
AGENT = "inference-studios"


class Missing(SourceError):
    """The source answered, and does not hold this file."""


@dataclass(frozen=True, slots=True)
class Download:
    """Where and how to read. `token` goes only to the endpoint's own origin, never along a redirect elsewhere."""

    endpoint: str
    token: str = ""
    deadline_s: float = DEADLINE_S

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceError("HF_ENDPOINT", f"{self.endpoint!r} is not an http or https address")

    def read(self, path: str, limit: int) -> bytes:
        """A whole file of at most `limit` bytes. Raises SourceError, Missing."""
        return self.within_deadline(path, lambda: self.exchange(path, limit, whole=True))

    def start(self, path: str, length: int) -> bytes:
        """The first `length` bytes of a file (fewer where it is shorter), whether or not the server heeds a range."""
        return self.within_deadline(path, lambda: self.exchange(path, length, whole=False))

    def within_deadline(self, path: str, work: Callable[[], bytes]) -> bytes:
        """`work` in its own thread: a socket timeout alone does not stop a server that sends a byte now and then."""
        outcome: list[Any] = []

        def call() -> None:
            try:
                outcome.append(work())
            except Exception as error:
                outcome.append(error)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(self.deadline_s + 1)
        if not outcome:
            raise self.slow(path)
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    def slow(self, path: str) -> SourceError:
        return SourceError(self.host, f"did not answer within {self.deadline_s:g} seconds for {path}")

    @property
    def host(self) -> str:
        """The endpoint without a user name or password in it."""
        return urlsplit(self.endpoint).hostname or self.endpoint

    def exchange(self, path: str, limit: int, whole: bool) -> bytes:
        """One request and its answer. Raises SourceError, Missing."""
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError

        try:
            with self.open(path, None if whole else limit) as response:
                return self.body(response, path, limit, whole)
        except HTTPError as error:
            raise self.refused(error, path) from None
        except TimeoutError:
            raise self.slow(path) from None
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise self.slow(path) from None
            raise SourceError(self.host, f"could not be reached: {error.reason}") from None
        except (HTTPException, OSError, ValueError) as error:
            raise SourceError(self.host, f"gave an answer that is no HTTP for {path}: {error or type(error).__name__}"
                              ) from None

    def open(self, path: str, length: int | None) -> "HTTPResponse":
        """The response to a GET of `path`, redirects followed."""
        from urllib.request import Request, build_opener

        request = Request(self.endpoint.rstrip("/") + "/" + path, headers={"User-Agent": AGENT})
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        if length is not None:
            request.add_header("Range", f"bytes=0-{max(length - 1, 0)}")
        return build_opener(redirects(self)).open(request, timeout=self.deadline_s)

    def body(self, response: "HTTPResponse", path: str, limit: int, whole: bool) -> bytes:
        """The answer's bytes: all of them (too many is an error), or the first `limit`."""
        from time import monotonic

        end, pieces, size = monotonic() + self.deadline_s, [], 0
        declared = response.headers.get("Content-Length", "")
        if whole and declared.isdigit() and int(declared) > limit:
            raise self.large(path, limit)
        while size < limit + whole:
            piece = response.read1(min(CHUNK, limit + whole - size))
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
            if monotonic() > end:
                raise self.slow(path)
        if whole and size > limit:
            raise self.large(path, limit)
        if whole and declared.isdigit() and size < int(declared):
            raise SourceError(self.host, f"broke off {path} after {size:,} of {int(declared):,} bytes")
        return b"".join(pieces)

    def large(self, path: str, limit: int) -> SourceError:
        return SourceError(self.host, f"{path} is larger than the {limit:,} bytes it may have")

    def refused(self, error: "HTTPError", path: str) -> SourceError:
        """What a status code means, with the Hub's own X-Error-Code where it sends one."""
        code = (error.headers or {}).get("X-Error-Code", "")
        status = error.code
        error.close()
        if code == "GatedRepo" or status == 403:
            return SourceError(self.host, f"access to {path} is gated (status {status}): accept its terms on the Hub "
                                          "and set HF_TOKEN to a token that may read it")
        if code == "EntryNotFound" or status == 404 and code not in ("RepoNotFound", "RevisionNotFound"):
            return Missing(self.host, f"there is no {path} (status {status})")
        if code == "RevisionNotFound":
            return SourceError(self.host, f"there is no such revision: {path}")
        if code == "RepoNotFound" or status == 401:
            return SourceError(self.host, f"no public repository for {path} (status {status}): check the name; a "
                                          "private one needs HF_TOKEN")
        if status == 429:
            return SourceError(self.host, "asks to slow down (status 429): try again later, or set HF_TOKEN")
        if 300 <= status < 400:
            return SourceError(self.host, f"redirects {path} without an end, or to where it may not: {error.reason}")
        return SourceError(self.host, f"answered {path} with status {status}")


def redirects(download: Download) -> Any:
    """A redirect handler that never leaves http(s), never goes from https to http, and keeps the token at home."""
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler

    class Redirects(HTTPRedirectHandler):
        max_redirections = MOST_REDIRECTS

        def redirect_request(self, req: "Request", fp: Any, code: int, msg: str, headers: Any, newurl: str
                             ) -> "Request | None":
            new, old = urlsplit(urljoin(req.full_url, newurl)), urlsplit(req.full_url)
            if new.scheme not in ("http", "https") or (old.scheme, new.scheme) == ("https", "http"):
                raise HTTPError(req.full_url, code, f"from {old.scheme} to {new.scheme}", headers, fp)
            request = super().redirect_request(req, fp, code, msg, headers, newurl)
            home = urlsplit(download.endpoint)
            if request is not None and download.token and (new.scheme, new.netloc) == (home.scheme, home.netloc):
                request.add_unredirected_header("Authorization", f"Bearer {download.token}")
            return request

    return Redirects()
