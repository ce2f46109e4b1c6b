"""`build.py serve`: the built folder on this machine, with the media types and the policy a host would send."""

import errno
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from builder.cache import BuildError
from builder.policy import THEME, policy


class Handler(SimpleHTTPRequestHandler):
    """Static files; hashed assets may be kept by the browser, pages are asked for again."""

    protocol_version = "HTTP/1.1"
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm", ".json": "application/json",
        ".whl": "application/zip", ".bin": "application/octet-stream", ".svg": "image/svg+xml"}

    def end_headers(self) -> None:
        kept = "/assets/" in self.path
        self.send_header("Cache-Control", "public, max-age=31536000, immutable" if kept else "no-cache")
        if kept:  # a worker has the policy of its own response, not that of the page
            self.send_header("Content-Security-Policy", policy((THEME,)))
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the address is all a reader needs."""


def server(folder: Path, port: int, tries: int = 50) -> ThreadingHTTPServer:
    """A server on 127.0.0.1 at `port`, or at the next free one. `port` 0: any. Raises BuildError."""
    for candidate in range(port, port + (tries if port else 1)):
        try:
            return ThreadingHTTPServer(("127.0.0.1", candidate), partial(Handler, directory=str(folder)))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise BuildError(f"no free port from {port} to {port + tries - 1}; choose one with --port")


def address(running: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{running.server_address[1]}/"
