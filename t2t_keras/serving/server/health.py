"""gRPC's health check, which Kubernetes and load balancers ask.

Without `Watch`: each call of it would hold a thread for as long as it lasts.
"""

from typing import Any

import grpc

from t2t_keras.serving.server.errors import answering, not_found
from t2t_keras.serving.server.protos import health_check_request, health_check_response

_SERVICES = frozenset({"", "PredictionService", "ModelService"})
_SERVING = 1


class _Health:
    @answering
    def check(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.service not in _SERVICES:
            raise not_found(f"There is no service {request.service!r}.")
        response = health_check_response()
        response.status = _SERVING
        return response


def health_handler() -> grpc.GenericRpcHandler:
    """Returns what answers `grpc.health.v1.Health/Check`.

    A server that answers can serve: it does not listen before its models are loaded.
    """
    check = grpc.unary_unary_rpc_method_handler(
        _Health().check,
        request_deserializer=type(health_check_request()).FromString,
        response_serializer=type(health_check_response()).SerializeToString,
    )
    return grpc.method_handlers_generic_handler(
        "grpc.health.v1.Health", {"Check": check}
    )
