"""`ModelService`: status of versions, and replacement of the list of models."""

from typing import Any

import grpc
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
)

from t2t_keras.serving.server.errors import (
    abort_on_error,
    invalid_argument,
    seconds_left,
)
from t2t_keras.serving.server.models import Models
from t2t_keras.serving.server.versions import State


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Model service over the models of a server.

    Args:
        models: Models of the server.
    """

    def __init__(self, models: Models):
        self._models = models

    @abort_on_error
    def GetModelStatus(  # noqa: N802
        self, request: Any, context: grpc.ServicerContext
    ) -> Any:
        """Returns the state of each version asked for."""
        if not request.HasField("model_spec"):
            raise invalid_argument("Missing ModelSpec")
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in self._models.versions(request.model_spec):
            state = version.state
            # It is there before the state that it belongs to.
            error = version.error if state is State.END else None
            status = response.model_version_status.add(
                version=version.number, state=state.value
            )
            status.status.error_code = error.code.value[0] if error else 0
            status.status.error_message = error.message if error else ""
        return response

    @abort_on_error
    def HandleReloadConfigRequest(  # noqa: N802
        self, request: Any, context: grpc.ServicerContext
    ) -> Any:
        """Replaces the list of models, and waits until new ones are available."""
        new = self._models.configure(request.config)
        self._models.wait_until_available(new, seconds_left(context))
        return model_management_pb2.ReloadConfigResponse()
