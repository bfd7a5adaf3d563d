"""Client of all services, and a server in this process to test it with."""

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path

import grpc
import tensorflow as tf
from anyio.from_thread import start_blocking_portal
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from t2t_keras.server.http.server import HttpServer
from t2t_keras.server.tf_serving.batching import BatchingOptions, BatchScheduler
from t2t_keras.server.tf_serving.configs import single_model
from t2t_keras.server.tf_serving.core import ServerCore
from t2t_keras.server.tf_serving.grpc_server import GrpcOptions, GrpcServer
from t2t_keras.server.tf_serving.health import HealthService
from t2t_keras.server.tf_serving.loading import Loader
from t2t_keras.server.tf_serving.metrics import Metrics
from t2t_keras.server.tf_serving.models import Models, WatchOptions
from t2t_keras.server.tf_serving.rest_api import RestOptions, rest_app
from t2t_keras.server.tf_serving.versions import Retries
from t2t_keras.server.workers import Workers

QUICK = WatchOptions(poll_seconds=0.05, retries=Retries(2, 0.05))


class Client:
    """Client of the services at an address or over a given channel.

    Attributes:
        stop: Function that stops a server in this process; takes the grace period in
            seconds.
        rest_port: Port of the REST API of a server in this process.
    """

    def __init__(self, address: str = "", channel: grpc.Channel | None = None):
        self.address = address
        self.stop: Callable[[float], None] = lambda _: None
        self.rest_port = 0
        self.channel = channel or grpc.insecure_channel(address)
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(
            self.channel
        )
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def predict(self, signature="", timeout=30, **inputs):
        """Returns the outputs as lists by name."""
        response = self.prediction.Predict(request(signature, **inputs), timeout)
        return values(response)

    def predict_until(self, end: Path, pool: Executor) -> Future:
        """Starts a request that runs until the file `end` exists."""
        future = pool.submit(self.predict, "wait", timeout=200, text=[bytes(end)])
        wait_until(lambda: Path(f"{end}.begun").exists() or future.done())
        if future.done():
            future.result()
        return future

    def metadata(self, *fields):
        message = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
        message.model_spec.name = "translate"
        return self.prediction.GetModelMetadata(message, timeout=30)

    def states(self, name="translate"):
        """Returns the states of all versions by number."""
        message = get_model_status_pb2.GetModelStatusRequest()
        message.model_spec.name = name
        statuses = self.models.GetModelStatus(message, timeout=30).model_version_status
        names = get_model_status_pb2.ModelVersionStatus.State
        return {each.version: names.Name(each.state) for each in statuses}

    def wait_for_states(self, expected, name="translate"):
        """Waits until the versions have the expected states."""
        wait_until(lambda: self.states(name) == expected, lambda: self.states(name))


def request(signature="", **inputs):
    """Returns a `PredictRequest` for the model "translate"."""
    message = predict_pb2.PredictRequest()
    message.model_spec.name = "translate"
    message.model_spec.signature_name = signature
    for name, value in inputs.items():
        message.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return message


def values(response):
    """Returns the outputs of a `PredictResponse` as lists by name."""
    return {
        name: tf.make_ndarray(proto).tolist()
        for name, proto in response.outputs.items()
    }


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    """Returns the status code and the message of a call that fails."""
    try:
        answer = call()
    except grpc.RpcError as error:
        return error.code().name, error.details()
    raise AssertionError(f"expected an error, received an answer: {answer}")


def wait_until(done: Callable[[], bool], seen: Callable[[], object] = str) -> None:
    """Waits for a condition for up to three minutes, because a machine may be busy."""
    end = time.monotonic() + 180
    while not done():
        if time.monotonic() > end:
            raise AssertionError(f"waited for three minutes; last seen: {seen()}")
        time.sleep(0.02)


@contextlib.contextmanager
def serving(
    base,
    batching: BatchingOptions | None = None,
    config=None,
    **options,
) -> Iterator[Client]:
    """Serves a directory from this process on a free port; yields a client."""
    metrics = Metrics()
    scheduler = BatchScheduler(batching, metrics) if batching else None
    models = Models(Loader(scheduler=scheduler), QUICK)
    models.wait_until_available(
        models.configure(config or single_model("translate", str(base))), 60
    )
    models.start_watching()
    with started(models, metrics=metrics, **options) as client:
        yield client
    models.close()
    if scheduler is not None:
        scheduler.close()


@contextlib.contextmanager
def started(
    models,
    max_running: int = 128,
    rest: RestOptions | None = None,
    metrics: Metrics | None = None,
    **grpc_options,
) -> Iterator[Client]:
    """Starts servers of given models for gRPC and REST; yields a client."""
    with start_blocking_portal() as portal:
        health = portal.call(HealthService)
        workers = portal.call(Workers, max_running)
        core = ServerCore(models, 1024, metrics or Metrics())
        options = GrpcOptions(**{"port": 0, **grpc_options})
        server = portal.call(GrpcServer, core, workers, health, options)
        client = Client(f"localhost:{portal.call(server.start)}")
        app = rest_app(core, workers, rest or RestOptions())
        http_server = HttpServer(app, "127.0.0.1", 0)
        client.rest_port = portal.call(http_server.start)

        def stop(seconds: float) -> None:
            core.stop_serving()
            portal.call(health.stop_serving)
            portal.call(workers.drain, seconds)
            portal.call(server.stop)
            portal.call(http_server.stop)

        client.stop = stop
        try:
            yield client
        finally:
            client.channel.close()
            stop(10)
            workers.close()
