"""Health checks of gRPC, as Kubernetes and load balancers ask them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckResponse, HealthListResponse
from grpc_health.v1.health_pb2_grpc import HealthServicer

# TensorFlow Serving's names; "" is the whole server.
SERVICES = ("", "PredictionService", "ModelService")


class HealthService(HealthServicer):
    """Status of the server and its services, SERVING until `stop_serving`.

    A server that answers can serve: it does not listen before its models are loaded.
    The library's own class for event loops holds a lock while it sends, so that one
    client which reads nothing would block all others (grpcio-health-checking 1.85).
    """

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    def stop_serving(self) -> None:
        """Reports NOT_SERVING from now on; to be called in the event loop."""
        self._stopped.set()

    async def Check(  # noqa: N802
        self, request: Any, context: grpc.aio.ServicerContext
    ) -> HealthCheckResponse:
        """Returns the status of a service."""
        if request.service not in SERVICES:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"There is no service {request.service!r}."
            )
        return self._status()

    async def List(  # noqa: N802
        self, request: Any, context: grpc.aio.ServicerContext
    ) -> HealthListResponse:
        """Returns the status of each service."""
        return HealthListResponse(statuses={each: self._status() for each in SERVICES})

    async def Watch(  # noqa: N802
        self, request: Any, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[HealthCheckResponse]:
        """Yields the status of a service now, and when it changes."""
        if request.service not in SERVICES:
            yield HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
            # A service that is unknown now may be known later, says the protocol.
            await asyncio.Event().wait()
        if not self._stopped.is_set():
            yield self._status()
        await self._stopped.wait()
        yield self._status()
        await asyncio.Event().wait()

    def _status(self) -> HealthCheckResponse:
        if self._stopped.is_set():
            return HealthCheckResponse(status=HealthCheckResponse.NOT_SERVING)
        return HealthCheckResponse(status=HealthCheckResponse.SERVING)
