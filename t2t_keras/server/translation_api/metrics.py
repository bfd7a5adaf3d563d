"""Metrics of the translation API for Prometheus, by route and status."""

import time
from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from t2t_keras.server.http.requests import NotedStatus

_PREFIX = "t2t_keras_translation_api_"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class TranslationApiMetrics:
    """Counts of requests, and the memory and open files of the process.

    Attributes:
        requests: Number of requests, by route and status.
        seconds: Their times, by route.
        in_flight: Number of requests that are being answered.
    """

    def __init__(self) -> None:
        disable_created_metrics()
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter(
            f"{_PREFIX}requests",
            "Requests.",
            ["route", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            f"{_PREFIX}request_seconds",
            "Seconds of requests.",
            ["route"],
            buckets=[0.01 * 2**power for power in range(14)],
            registry=self._registry,
        )
        self.in_flight = Gauge(
            f"{_PREFIX}requests_in_flight",
            "Requests that are being answered.",
            registry=self._registry,
        )

    async def answer(self, _: Request) -> Response:
        """Answers a request for all metrics, in Prometheus' text format."""
        content = generate_latest(self._registry)
        return Response(content, headers={"Content-Type": _CONTENT_TYPE})


class CountedRequests:
    """Middleware that counts requests.

    Args:
        app: The application.
        metrics: Receives the counts.
        routes: Known paths. All others count as one, whatever clients invent.
    """

    def __init__(
        self, app: ASGIApp, metrics: TranslationApiMetrics, routes: Sequence[str]
    ):
        self._app = app
        self._metrics = metrics
        self._routes = frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        route = path if path in self._routes else "other"
        started, noted = time.perf_counter(), NotedStatus(send)
        with self._metrics.in_flight.track_inprogress():
            try:
                await self._app(scope, receive, noted)
            finally:
                status = str(noted.status or 500)
                self._metrics.requests.labels(route, status).inc()
                seconds = time.perf_counter() - started
                self._metrics.seconds.labels(route).observe(seconds)
