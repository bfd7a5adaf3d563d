"""gRPC server: port, threads and limits."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from t2t_keras.errors import UserError
from t2t_keras.serving.server.health import MAX_WATCHES, HealthService
from t2t_keras.serving.server.model_service import ModelService
from t2t_keras.serving.server.models import Models
from t2t_keras.serving.server.prediction_service import PredictionService
from t2t_keras.serving.server.request_counter import RequestCounter

# Threads for status and health, which must be answered under full load as well.
_SPARE_THREADS = 8


@dataclass(frozen=True)
class GrpcOptions:
    """Address and limits of a gRPC server.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
        max_running: Predict requests at a time, each with a thread.
        max_rows: Maximum number of rows of a Predict request.
        credentials: Keys for TLS; `None` for plain text.
        channel_arguments: Names and values of gRPC's own settings.
        health: Whether health checks are answered.
    """

    # Not "localhost": of its two addresses one may be taken without an error.
    host: str = "127.0.0.1"
    port: int = 8500
    max_running: int = 128
    # Above the largest batch of TensorFlow Serving's default settings.
    max_rows: int = 1024
    credentials: grpc.ServerCredentials | None = None
    channel_arguments: Sequence[tuple[str, int | str]] = ()
    health: bool = False


class RunningServer:
    """gRPC server that is started.

    Attributes:
        models: Models that it serves.
        port: Port that it listens on.
    """

    def __init__(
        self,
        server: grpc.Server,
        models: Models,
        request_counter: RequestCounter,
        port: int,
        health: HealthService,
    ):
        self.models = models
        self._health = health
        self.port = port
        self._server = server
        self._request_counter = request_counter

    def stop(self, grace_seconds: float) -> None:
        """Refuses new requests, lets those under way finish, and ends.

        Health streams report NOT_SERVING until then.

        Args:
            grace_seconds: Longest wait; then unfinished requests are canceled.
        """
        self._health.enter_graceful_shutdown()
        ended = self._server.stop(grace_seconds)
        # A call that comes in this very moment may be neither begun nor refused (seen
        # with grpcio 1.85: 7 of 1,500), and would last as long as the grace. One that
        # was accepted before has a moment to begin.
        ended.wait(min(1.0, grace_seconds))
        self._request_counter.wait_until_none(grace_seconds)
        self._server.stop(None)


def start_server(models: Models, options: GrpcOptions) -> RunningServer:
    """Starts and returns a server.

    Raises:
        UserError: If the port is taken.
    """
    threads = options.max_running + _SPARE_THREADS
    arguments = {
        # As in TensorFlow Serving: no limit but the protocol's.
        "grpc.max_receive_message_length": -1,
        "grpc.max_send_message_length": -1,
        # Otherwise two servers share a port, and requests, without a word.
        "grpc.so_reuseport": 0,
    }
    arguments |= dict(options.channel_arguments)
    request_counter, health = RequestCounter(), HealthService()
    server = grpc.server(
        ThreadPoolExecutor(threads, thread_name_prefix="request"),
        interceptors=[request_counter],
        maximum_concurrent_rpcs=threads + (MAX_WATCHES if options.health else 0),
        options=list(arguments.items()),
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(models, options.max_running, options.max_rows), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(models), server
    )
    if options.health:
        health.add_to(server)
    address = f"{options.host}:{options.port}"
    try:
        if options.credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, options.credentials)
    except RuntimeError as error:
        raise UserError(
            f"{address} cannot be listened at. Stop what uses the port, or choose "
            "another with --port; 0 takes any that is free."
        ) from error
    server.start()
    return RunningServer(server, models, request_counter, port, health)
