"""The `PredictionService`: Predict, GetModelMetadata, and what refuses politely."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import grpc
from tensorflow_serving.apis import get_model_metadata_pb2, prediction_service_pb2_grpc

from t2t_keras.serving.server.errors import (
    ServingError,
    answering,
    invalid_argument,
    seconds_left,
)
from t2t_keras.serving.server.models import Models
from t2t_keras.serving.server.other_methods import check_method, multi_inference
from t2t_keras.serving.server.predict import predict

_SIGNATURE_DEF = "signature_def"


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers from what is served.

    Args:
        models: What is served.
        max_running: Predict requests that are worked on at a time; any more are
            refused at once, so that the server never owes more than it can do.
        max_rows: Most rows of a Predict request.
    """

    def __init__(self, models: Models, max_running: int, max_rows: int):
        self._models = models
        self._max_rows = max_rows
        self._max_running = max_running
        self._free = threading.Semaphore(max_running)

    @answering
    def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Runs a signature."""
        spec = _spec_of(request)
        with self._admitted(), self._models.use(spec) as (number, servable):
            response = predict(
                servable.run,
                servable.signatures,
                request,
                timeout_seconds=seconds_left(context),
                max_rows=self._max_rows,
            )
            response.model_spec.version.value = number
            return response

    @answering
    def GetModelMetadata(  # noqa: N802
        self, request: Any, context: grpc.ServicerContext
    ) -> Any:
        """Returns the signatures of a version, without their defaults."""
        spec = _spec_of(request)
        if not request.metadata_field:
            raise invalid_argument(
                "GetModelMetadataRequest must specify at least one metadata_field"
            )
        for name in request.metadata_field:
            if name != _SIGNATURE_DEF:
                raise invalid_argument(f"Metadata field {name} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        found = get_model_metadata_pb2.SignatureDefMap()
        with self._models.use(spec) as (number, servable):
            for name, contract in servable.signatures.items():
                found.signature_def[name].CopyFrom(contract)
                found.signature_def[name].ClearField("defaults")
            response.model_spec.version.value = number
        response.model_spec.name = spec.name
        response.metadata[_SIGNATURE_DEF].Pack(found)
        return response

    @answering
    def Classify(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Refuses."""
        self._refuse(request, "classify")

    @answering
    def Regress(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Refuses."""
        self._refuse(request, "regress")

    @answering
    def MultiInference(  # noqa: N802
        self, request: Any, context: grpc.ServicerContext
    ) -> Any:
        """Refuses."""
        if not request.tasks:
            raise invalid_argument("ModelSpec has no name specified.")
        with self._models.use(request.tasks[0].model_spec) as (_, servable):
            multi_inference(request, servable.signatures)

    def _refuse(self, request: Any, method: str) -> None:
        with self._models.use(_spec_of(request)) as (_, servable):
            check_method(request.model_spec, method, servable.signatures)

    @contextlib.contextmanager
    def _admitted(self) -> Iterator[None]:
        if not self._free.acquire(blocking=False):
            raise ServingError(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"The server is working on {self._max_running} requests, as many as it "
                "takes at a time (--grpc_max_threads). Try again later.",
            )
        try:
            yield
        finally:
            self._free.release()


def _spec_of(request: Any) -> Any:
    if not request.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")
    return request.model_spec
