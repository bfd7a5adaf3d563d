"""Requests to the models of a server, answered for any protocol.

Messages, checks and errors are TensorFlow Serving's. Methods block; `predict` may take
long, `reload` waits for models, and the others are quick.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
)

from t2t_keras.server.tf_serving.errors import invalid_argument, unimplemented
from t2t_keras.server.tf_serving.metrics import Metrics, microseconds
from t2t_keras.server.tf_serving.models import Models
from t2t_keras.server.tf_serving.predict import DEFAULT_SIGNATURE, predict
from t2t_keras.server.tf_serving.versions import State
from t2t_keras.server.workers import CancelToken

_SIGNATURE_DEF = "signature_def"


class ServerCore:
    """Answers to requests. Every method raises `ServingError` for a refusal.

    Args:
        models: Models of the server.
        max_rows: Maximum number of rows of a Predict request, if the batches of the
            model are not larger.
        metrics: Receives the times of requests.
    """

    def __init__(self, models: Models, max_rows: int, metrics: Metrics):
        self.models = models
        self.metrics = metrics
        self._max_rows = max_rows
        self._is_serving = True
        metrics.watch_versions(models.available)

    def stop_serving(self) -> None:
        """Reports available versions as unloading from now on: the server drains."""
        self._is_serving = False

    def measure(
        self, name: str, method: str, protocol: str
    ) -> contextlib.AbstractContextManager[None]:
        """Measures a request; the arguments are those of `Metrics.request`."""
        # Whatever names clients invent, the metrics do not grow.
        return self.metrics.request(
            name if self.models.is_known(name) else "", method, protocol
        )

    def predict(
        self,
        request: Any,
        timeout_seconds: float | None = None,
        cancel_token: CancelToken | None = None,
    ) -> Any:
        """Runs a signature; arguments and result are those of `predict`."""
        spec = _model_spec(request)
        with self.models.use(spec) as (number, servable):
            latency = self.metrics.runtime_latency.labels(spec.name, "Predict", "TF1")
            with microseconds(latency):
                response = predict(
                    servable.run,
                    servable.signatures,
                    request,
                    timeout_seconds=timeout_seconds,
                    max_rows=max(self._max_rows, servable.max_request_size),
                    cancel_token=cancel_token,
                )
            response.model_spec.version.value = number
            return response

    def inputs(self, model_spec: Any) -> Mapping[str, Any]:
        """Returns the `TensorInfo`s of a signature's inputs by name."""
        name = model_spec.signature_name or DEFAULT_SIGNATURE
        with self.models.use(model_spec) as (_, servable):
            if name not in servable.signatures:
                raise invalid_argument(
                    f'Serving signature name: "{name}" not found in signature def'
                )
            return dict(servable.signatures[name].inputs)

    def metadata(self, request: Any) -> Any:
        """Returns the signatures of a version."""
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
        with self.models.use(spec) as (number, servable):
            for name, contract in servable.signatures.items():
                signatures.signature_def[name].CopyFrom(contract)
            response.model_spec.version.value = number
        response.model_spec.name = spec.name
        response.metadata[_SIGNATURE_DEF].Pack(signatures)
        return response

    def status(self, request: Any) -> Any:
        """Returns the state of each version asked for."""
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in self.models.versions(_model_spec(request)):
            state = version.state
            if state is State.AVAILABLE and not self._is_serving:
                state = State.UNLOADING
            # It is there before the state that it belongs to.
            error = version.error if state is State.END else None
            status = response.model_version_status.add(
                version=version.number, state=state.value
            )
            # Set in any case: in JSON an empty status is "OK", and a missing one null.
            status.status.error_code = error.code.value[0] if error else 0
            status.status.error_message = error.message if error else ""
        return response

    def reload(self, request: Any, timeout_seconds: float | None = None) -> Any:
        """Replaces the list of models, and waits until all of them are available."""
        names = self.models.configure(request.config)
        self.models.wait_until_available(names, timeout_seconds)
        return model_management_pb2.ReloadConfigResponse()

    def refuse(self, method: str) -> Any:
        """Refuses a method that translators have no signatures for."""
        raise unimplemented(
            f"t2t_keras.serve runs Predict only, not {method}, which needs signatures "
            "of tf.Examples. tensorflow_model_server runs it.",
        )


def _model_spec(request: Any) -> Any:
    if not request.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")
    return request.model_spec
