"""Count of requests in progress, so that a server can drain before it ends."""

import threading
from collections.abc import Callable
from typing import Any

import grpc


class RequestCounter(grpc.ServerInterceptor):
    """Counts the calls that have begun and whose answers are not sent yet."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def wait_until_none(self, seconds: float) -> bool:
        """Waits until no call is under way; returns whether that came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, seconds)

    def intercept_service(
        self,
        continuation: Callable[[Any], grpc.RpcMethodHandler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        """Returns the method's handler, which is counted; streams are not."""
        handler: Any = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler

        def counted(request: Any, context: grpc.ServicerContext) -> Any:
            self._add(1)
            # Called when the answer is sent. If it cannot be, the caller has left.
            if not context.add_callback(lambda: self._add(-1)):
                self._add(-1)
            return handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            counted, handler.request_deserializer, handler.response_serializer
        )

    def _add(self, difference: int) -> None:
        with self._changed:
            self._count += difference
            self._changed.notify_all()
