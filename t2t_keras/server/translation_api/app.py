"""Application of the translation API: an ASGI app with LibreTranslate's interface."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from t2t_keras.server.http.access_log import AccessLog
from t2t_keras.server.http.requests import (
    BodyLimits,
    HttpError,
    error_response,
    until_disconnect,
)
from t2t_keras.server.translation_api.access import Access
from t2t_keras.server.translation_api.backend import (
    BUSY_SECONDS,
    GrpcBackend,
    backend_error,
)
from t2t_keras.server.translation_api.interface_description import describe_interface
from t2t_keras.server.translation_api.metrics import (
    CountedRequests,
    TranslationApiMetrics,
)
from t2t_keras.server.translation_api.page import page_response
from t2t_keras.server.translation_api.request_fields import invalid, read_fields
from t2t_keras.server.translation_api.settings import TranslationApiSettings
from t2t_keras.server.translation_api.translate_request import (
    parse_pair,
    parse_texts,
    parse_translate,
)
from t2t_keras.server.translation_api.translation_service import (
    TranslationService,
    frontend_settings,
)
from t2t_keras.server.workers import Cancelled, CancelToken, Workers, WorkersBusyError
from t2t_keras.serving.client.errors import ServerError

logger = logging.getLogger(__name__)
# A client that has left reads no answer. nginx logs this status.
_CLIENT_LEFT = 499
_PREFLIGHT_SECONDS = 24 * 60 * 60
# Kubernetes waits one second by default, and may be told to wait longer.
_READY_SECONDS = 5.0

Endpoint = Callable[[Request], Awaitable[Response]]


def translation_app(
    backend: GrpcBackend, settings: TranslationApiSettings
) -> Starlette:
    """Returns the ASGI app, whose threads end with its lifespan.

    Args:
        backend: Server of the models. The caller closes it, after the app.
        settings: Language pairs and limits.

    Raises:
        UserError: If the file of API keys cannot be used.
    """
    endpoints = _Endpoints(backend, settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            endpoints.close()

    routes, metrics = endpoints.routes(), TranslationApiMetrics()
    routes.append(Route("/metrics", metrics.answer))
    known = [route.path for route in routes]
    app = Starlette(
        routes=routes,
        middleware=[
            *([Middleware(AccessLog, name="API")] if settings.access_log else []),
            Middleware(_LeadingSlashes),
            Middleware(CountedRequests, metrics=metrics, routes=known),
            Middleware(
                CORSMiddleware,
                allow_origins=["*"],
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
                expose_headers=["Retry-After"],
                # Chrome asks for it where a public page calls a server on this host.
                allow_private_network=True,
                max_age=_PREFLIGHT_SECONDS,
            ),
            Middleware(
                BodyLimits,
                max_bytes=settings.max_body_bytes,
                timeout_seconds=settings.body_timeout_seconds,
            ),
        ],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    # A redirection would name the host that the client has named.
    app.router.redirect_slashes = False
    return app


class _LeadingSlashes:
    """Middleware that takes `//translate` as `/translate`, as LibreTranslate does.

    Clients send it where their setting for the server ends in a slash.
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": "/" + scope["path"].lstrip("/")}
        await self._app(scope, receive, send)


async def _http_error(_: Request, error: Exception) -> Response:
    """Answers what Starlette itself refuses: 404, 405, a malformed form."""
    if not isinstance(error, HTTPException):
        raise error
    response = error_response(HttpError(error.status_code, error.detail))
    response.headers.update(error.headers or {})
    return response


def _with_errors(endpoint: Endpoint) -> Endpoint:
    """Returns an endpoint that answers each of its errors in LibreTranslate's form.

    Starlette would answer other errors outside of its middleware, without CORS headers,
    so that a browser would hide them from its page.
    """

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except (Cancelled, ClientDisconnect):
            refused = HttpError(_CLIENT_LEFT, "The client has left.")
        except WorkersBusyError:
            text = "The server has too many requests at the moment. Try again."
            refused = HttpError(503, text, BUSY_SECONDS)
        except ServerError as error:
            logger.warning("%s: %s", request.url.path, error)
            refused = backend_error(error)
        except HttpError as error:
            refused = error
        except Exception:
            logger.exception("%s failed", request.url.path)
            refused = HttpError(500, "Internal error. The server's log has its cause.")
        return error_response(refused)

    return answer


class _Endpoints:
    """Endpoints, with what they share."""

    def __init__(self, backend: GrpcBackend, settings: TranslationApiSettings):
        self._settings = settings
        self._service = TranslationService(backend, settings)
        self._access = Access(settings)
        self._workers = Workers(
            settings.threads, settings.max_waiting, "translation_api"
        )
        # One question for all who ask at a time, beside the work of others.
        self._ready_workers = Workers(1, name="readiness")
        self._readiness: asyncio.Future[dict[str, str]] | None = None

    def close(self) -> None:
        self._workers.close()
        self._ready_workers.close()

    def routes(self) -> list[Route]:
        languages = self._service.languages
        constant = {
            "/languages": languages.describe(),
            "/health": {"status": "ok"},
            "/frontend/settings": frontend_settings(self._settings, languages),
            "/spec": describe_interface(),
        }
        # As LibreTranslate answers where these are turned off.
        refused = {
            "/suggest": "Suggestions are disabled on this server.",
            "/translate_file": "Files translation are disabled on this server.",
        }
        gets = {"/ready": self.ready}
        posts = {
            "/translate": self.translate,
            "/detect": self.detect,
            "/attention": self.attention,
        }
        return [
            Route("/", page_response(), methods=["GET"]),
            *(Route(path, _constant(value)) for path, value in constant.items()),
            *(Route(path, _with_errors(each)) for path, each in gets.items()),
            *(
                Route(path, _refusal(text), methods=["POST"])
                for path, text in refused.items()
            ),
            *(
                Route(path, _with_errors(endpoint), methods=["POST"])
                for path, endpoint in posts.items()
            ),
        ]

    async def ready(self, request: Request) -> Response:
        """Asks each model for an answer."""
        if self._readiness is None or self._readiness.done():
            self._readiness = asyncio.ensure_future(
                self._ready_workers.run(lambda _: self._service.check_models())
            )
            # Those who asked may have left.
            self._readiness.add_done_callback(_ignore_error)
        try:
            answer = asyncio.shield(self._readiness)
            return JSONResponse(await asyncio.wait_for(answer, _READY_SECONDS))
        except TimeoutError:
            seconds = f"within {_READY_SECONDS:g} s"
            raise HttpError(503, f"The models did not answer {seconds}.") from None

    async def translate(self, request: Request) -> Response:
        fields = await read_fields(request)
        self._access.check(request, fields, _cost(fields))
        asked = parse_translate(fields, self._settings, self._service.languages)
        return await self._work(
            request, lambda cancelled: self._service.translate(asked, cancelled)
        )

    async def detect(self, request: Request) -> Response:
        fields = await read_fields(request)
        self._access.check(request, fields)
        texts = parse_texts(fields, self._settings)
        return await self._work(request, lambda _: self._service.detect(texts))

    async def attention(self, request: Request) -> Response:
        fields = await read_fields(request)
        self._access.check(request, fields, _cost(fields))
        sources = parse_texts(fields, self._settings)
        targets = parse_texts(fields, self._settings, "translation")
        if len(sources) != len(targets):
            raise invalid("translation", f"a list of {len(sources)}, as q is")
        pair = parse_pair(fields, self._service.languages)
        pairs = list(zip(sources, targets, strict=True))

        def align(cancelled: CancelToken) -> Any:
            answers = self._service.align(pairs, *pair, cancelled)
            return answers if isinstance(fields["q"], list) else answers[0]

        return await self._work(request, align)

    async def _work(
        self, request: Request, work: Callable[[CancelToken], Any]
    ) -> Response:
        result = await until_disconnect(request, self._workers.run(work))
        return JSONResponse(result)


def _ignore_error(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _cost(fields: Mapping[str, Any]) -> int:
    """Returns the number of requests that one counts for: its texts."""
    texts = fields.get("q")
    return max(1, len(texts)) if isinstance(texts, list) else 1


def _constant(value: Mapping[str, Any] | list[Any]) -> Endpoint:
    response = JSONResponse(value)

    async def answer(_: Request) -> Response:
        return response

    return answer


def _refusal(text: str) -> Endpoint:
    async def answer(_: Request) -> Response:
        return error_response(HttpError(403, text))

    return answer
