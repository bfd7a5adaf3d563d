"""Limits of request bodies: size, and the time in which they arrive."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t2t_keras.serving.translation_api.responses import error_response


class BodyLimits:
    """ASGI middleware that reads each body before the application runs.

    Args:
        app: The application.
        max_bytes: Larger bodies are answered with 413.
        timeout_seconds: Bodies that are not complete after it are answered with 408.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, timeout_seconds: float):
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_seconds = timeout_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on with its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        response, body = None, b""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                body = await self._read(receive)
        except TimeoutError:
            response = error_response(408, "The request did not arrive in time.")
        if body is None:
            return  # the client has left
        if len(body) > self._max_bytes:
            text = f"Request body exceeds size limit ({self._max_bytes} bytes)"
            response = error_response(413, text)
        if response is not None:
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

    async def _read(self, receive: Receive) -> bytes | None:
        """Returns a body, or the part of it that exceeds the limit; None without one.

        None means that the client has left.
        """
        chunks, size = [], 0
        while size <= self._max_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if not message.get("more_body", False):
                break
        return b"".join(chunks)
