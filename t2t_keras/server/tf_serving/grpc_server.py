"""gRPC server: TensorFlow Serving's services, health checks, ports and limits.

It runs in an event loop, so that neither a connection nor a request whose body does not
arrive holds a thread. Health, status and metadata are answered in the loop itself, and
so also while all workers are busy.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)

from t2t_keras.server import connection_limits
from t2t_keras.server.http.access_log import log_access
from t2t_keras.server.http.server import cannot_listen_error, join_address
from t2t_keras.server.tf_serving.core import ServerCore
from t2t_keras.server.tf_serving.errors import (
    ServingError,
    report_exception,
    seconds_left,
    shorten,
)
from t2t_keras.server.tf_serving.health import HealthService
from t2t_keras.server.workers import Workers

# Reloads that wait for their models at a time; further ones wait for these.
_RELOADS = 4
# When a call has ended, its answer is still to be sent.
_STOP_SECONDS = 1.0
_MAX_CONNECTIONS = "grpc.max_allowed_incoming_connections"
# Takes a request and the seconds left for it, and returns the answer.
Answer = Callable[[Any, float | None], Awaitable[Message]]


@dataclass(frozen=True)
class GrpcOptions:
    """Address and limits of a gRPC server.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
        socket_paths: Unix domain sockets to listen on as well, without TLS.
        own_socket_path: Another, on which only this process connects; "" for none.
        credentials: Keys for TLS; `None` for plain text.
        channel_arguments: Names and values of gRPC's own settings.
        health: Whether health checks are answered.
        body_seconds: Longest time in which the message of a request must arrive.
        access_log: Whether each request is logged.
    """

    # Not "localhost": of its two addresses one may be taken without an error.
    host: str = "127.0.0.1"
    port: int = 8500
    socket_paths: Sequence[str] = ()
    own_socket_path: str = ""
    credentials: grpc.ServerCredentials | None = None
    channel_arguments: Sequence[tuple[str, int | str]] = ()
    health: bool = False
    body_seconds: float = 60.0
    access_log: bool = False


class GrpcServer:
    """gRPC server; every method is to be called in the event loop."""

    def __init__(
        self,
        core: ServerCore,
        workers: Workers,
        health: HealthService,
        options: GrpcOptions,
    ):
        self._core = core
        self._workers = workers
        self._options = options
        # Several, so that one which waits for a model can be corrected by another.
        self._reloads = ThreadPoolExecutor(_RELOADS, "reload")
        arguments = {
            # As in TensorFlow Serving: no limit but the protocol's.
            "grpc.max_receive_message_length": -1,
            "grpc.max_send_message_length": -1,
            # Otherwise two servers share a port, and requests, without a word.
            "grpc.so_reuseport": 0,
        }
        most = connection_limits.max_grpc_connections()
        if most is not None:
            # gRPC's core accepts until no descriptor is left, and counts the
            # connections of each address alone.
            addresses = _count_addresses(options.host) + len(options.socket_paths)
            arguments[_MAX_CONNECTIONS] = max(1, most // addresses)
        arguments |= dict(options.channel_arguments)
        self._server = grpc.aio.server(options=list(arguments.items()))
        self._server.add_generic_rpc_handlers(
            (
                _handlers("PredictionService", self._prediction_methods(), options),
                _handlers("ModelService", self._model_methods(), options),
            )
        )
        if options.health:
            add_HealthServicer_to_server(health, self._server)

    async def start(self) -> int:
        """Starts to listen; returns the port.

        Raises:
            UserError: If the port or the socket cannot be listened at.
        """
        options = self._options
        port = self._listen(join_address(options.host, options.port))
        for path in (*options.socket_paths, options.own_socket_path):
            if path:
                self._listen(f"unix:{path}")
        await self._server.start()
        return port

    async def stop(self) -> None:
        """Ends within a second; requests that are still under way are canceled."""
        self._reloads.shutdown(wait=False, cancel_futures=True)
        await self._server.stop(_STOP_SECONDS)

    def _listen(self, address: str) -> int:
        try:
            if self._options.credentials is None or address.startswith("unix:"):
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, self._options.credentials)
        except RuntimeError as error:
            raise cannot_listen_error(address) from error

    def _prediction_methods(self) -> Mapping[str, tuple[type[Message], Answer]]:
        async def predict(request: Any, seconds: float | None) -> Message:
            with self._core.measure(request.model_spec.name, "Predict", "GRPC"):
                return await self._workers.run(
                    lambda token: self._core.predict(request, seconds, token)
                )

        async def metadata(request: Any, seconds: float | None) -> Message:
            return self._core.metadata(request)

        async def refuse(request: Any, seconds: float | None) -> Message:
            method = type(request).__name__.removesuffix("Request")
            return self._core.refuse(method)

        return {
            "Predict": (predict_pb2.PredictRequest, predict),
            "GetModelMetadata": (
                get_model_metadata_pb2.GetModelMetadataRequest,
                metadata,
            ),
            "Classify": (classification_pb2.ClassificationRequest, refuse),
            "Regress": (regression_pb2.RegressionRequest, refuse),
            "MultiInference": (inference_pb2.MultiInferenceRequest, refuse),
        }

    def _model_methods(self) -> Mapping[str, tuple[type[Message], Answer]]:
        async def status(request: Any, seconds: float | None) -> Message:
            return self._core.status(request)

        async def reload(request: Any, seconds: float | None) -> Message:
            return await asyncio.get_running_loop().run_in_executor(
                self._reloads, self._core.reload, request, seconds
            )

        return {
            "GetModelStatus": (get_model_status_pb2.GetModelStatusRequest, status),
            "HandleReloadConfigRequest": (
                model_management_pb2.ReloadConfigRequest,
                reload,
            ),
        }


def _count_addresses(host: str) -> int:
    """Returns the number of addresses of a host, at each of which gRPC listens."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return 1  # listening will fail
    return len({address for _, _, _, _, address in found})


def _handlers(
    service: str,
    methods: Mapping[str, tuple[type[Message], Answer]],
    options: GrpcOptions,
) -> grpc.GenericRpcHandler:
    """Returns the handlers of a service's methods, each of one message.

    They take a stream of messages, and read the first: the library would wait for it
    without a limit. On the wire there is no difference.
    """
    return grpc.method_handlers_generic_handler(
        f"tensorflow.serving.{service}",
        {
            name: grpc.stream_unary_rpc_method_handler(
                _handler(f"{service}/{name}", message, answer, options)
            )
            for name, (message, answer) in methods.items()
        },
    )


def _handler(
    name: str, message: type[Message], answer: Answer, options: GrpcOptions
) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[bytes]]:
    async def respond(
        requests: Any, context: grpc.aio.ServicerContext
    ) -> bytes | ServingError:
        try:
            request = message.FromString(await _read(requests, options.body_seconds))
            response = await answer(request, seconds_left(context))
            return response.SerializeToString()
        except DecodeError:
            return ServingError(
                grpc.StatusCode.INTERNAL, f"The message is no {message.__name__}."
            )
        except Exception as error:
            return report_exception(error)

    async def handle(requests: Any, context: grpc.aio.ServicerContext) -> bytes:
        started = time.perf_counter()
        code = grpc.StatusCode.CANCELLED  # if the client leaves
        try:
            response = await respond(requests, context)
            refused = isinstance(response, ServingError)
            code = response.code if refused else grpc.StatusCode.OK
        finally:
            if options.access_log:
                log_access("gRPC", context.peer(), name, code.name, started)
        if isinstance(response, ServingError):
            await context.abort(response.code, shorten(response.message))
            raise AssertionError("abort raises")
        return response

    return handle


async def _read(requests: Any, seconds: float) -> bytes:
    """Returns the first message of a stream."""
    try:
        return await asyncio.wait_for(anext(requests), seconds)
    except TimeoutError:
        raise ServingError(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f"The message of the request did not arrive within {seconds:g} s.",
        ) from None
    except StopAsyncIteration:
        raise ServingError(
            grpc.StatusCode.INTERNAL, "The request has no message."
        ) from None
