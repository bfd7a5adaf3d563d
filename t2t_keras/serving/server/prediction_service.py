"""`PredictionService`: Predict and GetModelMetadata; other methods are refused."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import grpc
from tensorflow_serving.apis import get_model_metadata_pb2, prediction_service_pb2_grpc

from t2t_keras.serving.server.errors import (
    ServingError,
    abort_on_error,
    invalid_argument,
    seconds_left,
)
from t2t_keras.serving.server.models import Models
from t2t_keras.serving.server.other_methods import check_method, multi_inference
from t2t_keras.serving.server.predict import predict

_SIGNATURE_DEF = "signature_def"


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Prediction service over the models of a server.

    Args:
        models: Models of the server.
        max_running: Maximum number of Predict requests at a time; further ones are
            refused at once, so that no queue builds up.
        max_rows: Maximum number of rows of a Predict request.
    """

    def __init__(self, models: Models, max_running: int, max_rows: int):
        self._models = models
        self._max_rows = max_rows
        self._max_running = max_running
        self._free = threading.Semaphore(max_running)

    @abort_on_error
    def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Runs a signature."""
        spec = _model_spec(request)
        with self._admit(), self._models.use(spec) as (number, servable):
            response = predict(
                servable.run,
                servable.signatures,
                request,
                timeout_seconds=seconds_left(context),
                max_rows=self._max_rows,
            )
            response.model_spec.version.value = number
            return response

    @abort_on_error
    def GetModelMetadata(  # noqa: N802
        self, request: Any, context: grpc.ServicerContext
    ) -> Any:
        """Returns the signatures of a version, without their defaults."""
        spec = _model_spec(request)
        if not request.metadata_field:
            raise invalid_argument(
                "GetModelMetadataRequest must specify at least one metadata_field"
            )
        for name in request.metadata_field:
            if name != _SIGNATURE_DEF:
                raise invalid_argument(f"Metadata field {name} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        signatures = get_model_metadata_pb2.SignatureDefMap()
        with self._models.use(spec) as (number, servable):
            for name, contract in servable.signatures.items():
                signatures.signature_def[name].CopyFrom(contract)
                signatures.signature_def[name].ClearField("defaults")
            response.model_spec.version.value = number
        response.model_spec.name = spec.name
        response.metadata[_SIGNATURE_DEF].Pack(signatures)
        return response

    @abort_on_error
    def Classify(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Answers with TensorFlow Serving's error: method not supported."""
        self._refuse(request, "classify")

    @abort_on_error
    def Regress(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Answers with TensorFlow Serving's error: method not supported."""
        self._refuse(request, "regress")

    @abort_on_error
    def MultiInference(  # noqa: N802
        self, request: Any, context: grpc.ServicerContext
    ) -> Any:
        """Answers with TensorFlow Serving's error: method not supported."""
        if not request.tasks:
            raise invalid_argument("ModelSpec has no name specified.")
        with self._models.use(request.tasks[0].model_spec) as (_, servable):
            multi_inference(request, servable.signatures)

    def _refuse(self, request: Any, method: str) -> None:
        with self._models.use(_model_spec(request)) as (_, servable):
            check_method(request.model_spec, method, servable.signatures)

    @contextlib.contextmanager
    def _admit(self) -> Iterator[None]:
        if not self._free.acquire(blocking=False):
            raise ServingError(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"The server is working on {self._max_running} requests, the maximum "
                "at a time (--grpc_max_threads). Try again later.",
            )
        try:
            yield
        finally:
            self._free.release()


def _model_spec(request: Any) -> Any:
    if not request.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")
    return request.model_spec
