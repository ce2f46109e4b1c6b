"""The endpoints."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response

from pycore.errors import StudioError
from runtime.mini_infer.answers import Answer, Ask
from runtime.mini_infer.server import bodies, requests, schemas, sending
from runtime.mini_infer.server.gate import Gate
from runtime.mini_infer.server.metrics import Metrics
from runtime.mini_infer.server.refusals import Refusal, refusal
from runtime.mini_infer.server.shapes import ChatShape, CompletionShape, Shape
from runtime.mini_infer.service import Service

TOKENISERS = 2  # threads: a long prompt delays no short one


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the server behaves. `keys`: any of them opens /v1; `origins`: pages that may call it, "*" for all."""

    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    most_body_bytes: int = 4 << 20


def application(service: Service, metrics: Metrics, settings: Settings) -> FastAPI:
    """The ASGI application of a service; it starts and stops it."""
    endpoints = Endpoints(service, metrics, settings)
    made = FastAPI(title="mini-infer", openapi_url=None, lifespan=lambda app: _life(service, endpoints))
    made.add_middleware(Gate, keys=settings.keys)
    if settings.origins:
        made.add_middleware(CORSMiddleware, allow_origins=list(settings.origins), allow_methods=["GET", "POST"],
                            allow_headers=["*"], expose_headers=["X-Request-Id", "Retry-After"])
    made.add_exception_handler(Refusal, lambda request, error: error.response())
    made.add_exception_handler(StudioError, lambda request, error: refusal(error).response())
    made.add_exception_handler(HTTPException, _http)
    endpoints.join(made)
    return made


@asynccontextmanager
async def _life(service: Service, endpoints: "Endpoints") -> AsyncIterator[None]:
    service.start()
    try:
        yield
    finally:
        await service.stop()
        endpoints.tokenising.shutdown(wait=False, cancel_futures=True)


def _http(request: Request, error: HTTPException) -> Response:
    """A path or a method that there is not."""
    message = f"{request.method} {request.url.path[:200]}: {error.detail}"
    return Refusal(error.status_code, message, headers=error.headers).response()


class Endpoints:
    """The functions behind the paths. Texts become tokens in threads of their own, so that the loop stays free."""

    def __init__(self, service: Service, metrics: Metrics, settings: Settings):
        self.service, self.metrics, self.settings = service, metrics, settings
        self.created = int(time.time())
        self.tokenising = ThreadPoolExecutor(TOKENISERS, "tokenising")

    def join(self, app: FastAPI) -> None:
        """Put them under their paths. As plain routes: what the functions behind its own belong to, FastAPI keeps for ever,
        and so would the engine of a server that has ended stay in memory."""
        for path, endpoint in (("/health", self.health), ("/metrics", self.scrape), ("/v1/models", self.models),
                               ("/v1/models/{name:path}", self.model)):
            app.add_route(path, endpoint, methods=["GET"])
        app.add_route("/v1/completions", self.completions, methods=["POST"])
        app.add_route("/v1/chat/completions", self.chat, methods=["POST"])

    async def health(self, request: Request) -> Response:
        """200 while requests are taken, else 503 and why."""
        trouble = self.service.trouble
        return JSONResponse({"status": trouble or "ok"}, status_code=503 if trouble else 200)

    async def scrape(self, request: Request) -> Response:
        """Prometheus' text format."""
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def models(self, request: Request) -> Response:
        """The one model."""
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def model(self, request: Request) -> Response:
        """The same by its name."""
        requests.check_model(self.service, request.path_params["name"])
        return JSONResponse(self._card())

    def _card(self) -> dict[str, object]:
        return {"id": self.service.name, "object": "model", "created": self.created, "owned_by": "mini-infer",
                "max_model_len": self.service.longest}

    async def completions(self, request: Request) -> Response:
        """A prompt, or several, continued."""
        asked = schemas.read(schemas.CompletionRequest, await bodies.read(request, self.settings.most_body_bytes))

        def shape(answer: Answer) -> Shape:
            return CompletionShape(*self._named("cmpl", request, answer), echo=bool(asked.echo),
                                   logprobs=asked.logprobs is not None, include_usage=_usage(asked))

        return await self._answered(request, asked, requests.of_completion, shape)

    async def chat(self, request: Request) -> Response:
        """A conversation answered."""
        asked = schemas.read(schemas.ChatRequest, await bodies.read(request, self.settings.most_body_bytes))

        def shape(answer: Answer) -> Shape:
            return ChatShape(*self._named("chatcmpl", request, answer), logprobs=bool(asked.logprobs),
                             include_usage=_usage(asked))

        return await self._answered(request, asked, requests.of_chat, shape)

    def _named(self, kind: str, request: Request, answer: Answer) -> tuple:
        return f"{kind}-{request.state.request_id}", self.service.name, self.service.words, answer

    async def _answered(self, request: Request, asked: schemas.Common, asks: Callable[..., Sequence[Ask]],
                        shape: Callable[[Answer], Shape]) -> Response:
        requests.check_model(self.service, asked.model)
        requests.check_stream(asked)
        loop = asyncio.get_running_loop()
        requests.check_places(self.service, asked)
        answer = await self.service.submit(await loop.run_in_executor(self.tokenising, asks, self.service, asked))
        if asked.stream:
            return sending.EventStream(answer, shape(answer))
        return await sending.whole(request, answer, shape(answer))


def _usage(asked: schemas.Common) -> bool:
    return bool(asked.stream and asked.stream_options and asked.stream_options.include_usage)
