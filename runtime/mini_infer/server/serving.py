"""From an opened model to a server on a port that ends in good order."""

import errno
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from pycore.errors import InputError
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.server.application import Settings, application
from runtime.mini_infer.server.metrics import Metrics
from runtime.mini_infer.service import Service
from runtime.mini_infer.words import Words

KEEP_ALIVE_S = 75  # longer than clients and proxies keep a connection that nobody uses
LAST_WORDS_S = 5  # for answers that are ready to reach their clients
SWITCH_S = 0.001  # how long the engine's thread may hold Python's lock while the loop waits for it


def bind(host: str, port: int) -> socket.socket:
    """A socket on an address that is free. Raises InputError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM,
                                                                flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise InputError("host", host, "an address or a name of this machine") from None
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
    except OSError as error:
        made.close()
        raise taken(error, host, port) from None
    return made


def taken(error: OSError, host: str, port: int) -> InputError:
    """What is wrong with an address, in words."""
    if error.errno == errno.EADDRINUSE:
        return InputError("port", port, f"a free port; another program listens on {host}:{port}")
    if error.errno == errno.EACCES:
        return InputError("port", port, "a port that this user may open, 1024 or higher; 0 takes any free one")
    return InputError("host", host, f"an address of this machine ({error.strerror})")


class Server(uvicorn.Server):
    """Ends in order: at the first signal new requests get 503 and those under way up to `drain_seconds`; at the second
    one, or when that time is over, those left are told that the server ends."""

    def __init__(self, config: uvicorn.Config, service: Service, drain_seconds: float):
        super().__init__(config)
        self.service, self.drain_seconds = service, drain_seconds
        self.ends_at: float | None = None
        self.listening: Callable[[], None] = lambda: None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came."""
        if self.ends_at is None:
            self.service.drain()
            self.ends_at = time.monotonic() + self.drain_seconds
        elif self.should_exit:
            self.force_exit = True
        else:
            self.ends_at = time.monotonic()

    async def on_tick(self, counter: int) -> bool:
        """Whether it is time to end; asked ten times a second."""
        if self.ends_at is not None and (not self.service.under_way or time.monotonic() >= self.ends_at):
            self.should_exit = True
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """It listens; from now on a signal ends it in order."""
        await super().startup(sockets)
        if self.started:
            self.listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Those who are left are told; then connections close."""
        await self.service.stop()
        await super().shutdown(sockets)


def server(engine: Engine, words: Words, settings: Settings, *, name: str, queue: int = 256,
           seed: int | None = None, drain_seconds: float = 30.0) -> Server:
    """A server for an engine, not started. Raises InputError."""
    metrics = Metrics(name, lambda: service.statistics)
    service = Service(engine, words, name=name, queue=queue, seed=seed, watcher=metrics)
    config = uvicorn.Config(application(service, metrics, settings), log_config=None, log_level="warning", access_log=False,
                            http="h11", ws="none", loop="asyncio", lifespan="on", server_header=False,
                            timeout_keep_alive=KEEP_ALIVE_S,
                            timeout_graceful_shutdown=LAST_WORDS_S)
    return Server(config, service, drain_seconds)


def serve(made: Server, place: socket.socket, say: Callable[[str], None]) -> None:
    """Serve on a socket until a signal comes, and say where as soon as it listens. Raises InputError where somebody else has
    taken its address meanwhile."""
    host, port = place.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    sys.setswitchinterval(SWITCH_S)
    service = made.service
    line = f"{service.name} at http://{shown}:{port}/v1 ({service.seats} seats, at most {service.reach} tokens a text)"
    made.listening = lambda: say(line)
    try:
        made.run(sockets=[place])
    except OSError as error:
        raise taken(error, host, port) from None
