"""Access log: a line for each request, over HTTP or gRPC."""

import logging
import time

from starlette.types import ASGIApp, Receive, Scope, Send

from t2t_keras.server.http.requests import NotedStatus

logger = logging.getLogger(__name__)


def log_access(
    protocol: str, client: str, request: str, status: str | int, started: float
) -> None:
    """Logs a request that has ended.

    Args:
        protocol: Such as "gRPC".
        client: Address of the client.
        request: Method and path.
        status: Status of the answer.
        started: When it came, on the clock of `time.perf_counter`.
    """
    milliseconds = (time.perf_counter() - started) * 1e3
    logger.info("%s %s %s %s %.1f ms", protocol, client, request, status, milliseconds)


class AccessLog:
    """Middleware that logs every request when its answer has been sent.

    Args:
        app: The application.
        name: Name of the interface, for the lines.
    """

    def __init__(self, app: ASGIApp, name: str):
        self._app = app
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, noted = time.perf_counter(), NotedStatus(send)
        try:
            await self._app(scope, receive, noted)
        finally:
            client = scope["client"][0] if scope.get("client") else "-"
            # As it was sent: percent-encoded, so that a line is one line.
            path = scope["raw_path"].decode("latin-1")
            request = f"{scope['method']} {path}"
            status = "no answer" if noted.status is None else noted.status
            log_access(self._name, client, request, status, started)
