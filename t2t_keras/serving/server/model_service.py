"""The `ModelService`: how versions are, and another list of models."""

from typing import Any

import grpc
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
)

from t2t_keras.serving.server.errors import (
    answering,
    invalid_argument,
    seconds_left,
)
from t2t_keras.serving.server.models import Models
from t2t_keras.serving.server.versions import State


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Tells of what is served, and changes it.

    Args:
        models: What is served.
    """

    def __init__(self, models: Models):
        self._models = models

    @answering
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

    @answering
    def HandleReloadConfigRequest(  # noqa: N802
        self, request: Any, context: grpc.ServicerContext
    ) -> Any:
        """Serves another list of models, and waits until those that are new answer."""
        new = self._models.configure(request.config)
        self._models.wait_until_available(new, seconds_left(context))
        return model_management_pb2.ReloadConfigResponse()
