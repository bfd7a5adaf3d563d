"""Health checks of gRPC, Check and Watch, as Kubernetes and load balancers ask them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from grpc_health.v1.health import HealthServicer
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

# TensorFlow Serving's names; "" is the whole server.
SERVICES = ("", "PredictionService", "ModelService")
MAX_WATCHES = 128
# Threads that refuse streams while all others hold one.
_SPARE_THREADS = 2


class HealthService(HealthServicer):
    """Status of the server and its services.

    A server that answers can serve: it does not listen before its models are loaded.
    Each Watch stream holds a thread of the service's own pool, of which there are
    `MAX_WATCHES`; Predict never waits for one. The library can do without a thread for
    each, but sends under its lock then, which may block the whole server for good when
    a stream ends at that moment (grpcio-health-checking 1.85, grpc/grpc#43403).
    """

    def __init__(self) -> None:
        threads = MAX_WATCHES + _SPARE_THREADS
        super().__init__(
            experimental_non_blocking=False,
            experimental_thread_pool=ThreadPoolExecutor(threads, "health"),
        )
        self._free_streams = threading.Semaphore(MAX_WATCHES)
        for service in SERVICES:
            self.set(service, HealthCheckResponse.SERVING)

    def add_to(self, server: grpc.Server) -> None:
        """Has a server answer health checks."""
        add_HealthServicer_to_server(self, server)

    def Watch(  # noqa: N802
        self,
        request: Any,
        context: grpc.ServicerContext,
        send_response_callback: Any = None,
    ) -> Any:
        """Yields the status of a service now, and whenever it changes.

        More than `MAX_WATCHES` streams are refused with RESOURCE_EXHAUSTED.
        """
        if not self._free_streams.acquire(blocking=False):
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"The server has {MAX_WATCHES} health streams, the most it takes. Try "
                "again later, or ask with Check.",
            )
        if not context.add_callback(self._free_streams.release):
            self._free_streams.release()  # the client has left already
        return super().Watch(request, context, send_response_callback)
