"""Bodies of requests, read within limits before the application runs."""

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t2t_keras.serving.http.requests import BodyReader, HttpError, error_response


class BodyLimits:
    """ASGI middleware that reads each body before the application runs.

    Args:
        app: The application.
        max_bytes: Largest body.
        timeout_seconds: Longest time in which a body must arrive.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, timeout_seconds: float):
        self._app = app
        self._bodies = BodyReader(max_bytes, timeout_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on with its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            body = await self._bodies.read(request)
        except ClientDisconnect:
            return
        except HttpError as error:
            response = error_response(error)
            # The rest of the body may still arrive. It is not the next request.
            response.headers["connection"] = "close"
            await response(scope, receive, send)
            return
        unread: list[Message] = [
            {"type": "http.request", "body": body, "more_body": False}
        ]

        async def receive_whole() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, receive_whole, send)
