"""Requests over HTTP: bodies within limits, refusals, and clients that leave."""

import asyncio
import contextlib
import zlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t2t_keras.server.http.encodings import list_encodings

# Of a gzip file. Each takes time, even if it is empty.
_MAX_MEMBERS = 10_000
# Read at a time: what follows the end of a member is copied.
_PIECE_BYTES = 16 * 2**10

Result = TypeVar("Result")


class HttpError(Exception):
    """A refusal.

    Args:
        status: Status code of HTTP.
        message: For the client, without names of files or machines.
        retry_after: Seconds for the header Retry-After; None for no header.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None):
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


def error_response(error: HttpError) -> JSONResponse:
    """Returns `{"error": message}`, as both APIs answer."""
    headers = (
        {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    )
    return JSONResponse({"error": error.message}, error.status, headers)


class NotedStatus:
    """`send` of an ASGI application, which notes the status of the answer.

    Attributes:
        status: Status code of HTTP; None if no answer has begun.
    """

    def __init__(self, send: Send):
        self.status: int | None = None
        self._send = send

    async def __call__(self, message: Message) -> None:
        """Sends a message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


class BodyReader:
    """Reads bodies of requests, which may be compressed by gzip.

    Args:
        max_bytes: Largest size of a body, before and after decompression. All that are
            being read may have sixteen times as much together, so that clients cannot
            fill the memory.
        seconds: Longest time in which a body must arrive.
    """

    def __init__(self, max_bytes: int, seconds: float):
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._free_bytes = 16 * max_bytes

    async def read(self, request: Request) -> bytes:
        """Returns the body of a request.

        Raises:
            HttpError: 413 if it is too large, 408 if it did not arrive, 503 if others
                take all memory, 400 if its compression is damaged, 415 if it has
                another encoding.
            ClientDisconnect: If the client left.
        """
        encodings = list_encodings(request.headers)
        if encodings not in ([], ["gzip"], ["x-gzip"]):
            received = ", ".join(encodings)
            raise HttpError(415, f"Content-Encoding must be gzip. Received: {received}")
        length = request.headers.get("content-length", "")
        if length.isdecimal():
            # Before the client is told to send the body, or as soon as possible.
            self._check_size(int(length))
        body = bytearray()
        try:
            async with asyncio.timeout(self._seconds):
                async for chunk in request.stream():
                    self._free_bytes -= len(chunk)
                    body += chunk
                    self._check_size(len(body))
                    if self._free_bytes < 0:
                        raise HttpError(
                            503, "The server is reading too many requests. Try later."
                        )
        except TimeoutError:
            raise HttpError(
                408,
                f"The body of the request did not arrive within {self._seconds:g} s.",
            ) from None
        finally:
            self._free_bytes += len(body)
        return self._decompress(body) if encodings else bytes(body)

    def _decompress(self, body: bytearray) -> bytes:
        """Returns the contents of all members of a gzip file, one after another."""
        content, start, members = bytearray(), 0, 1
        decompressor = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        while start < len(body):
            if decompressor.eof:
                decompressor = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
                members += 1
            if members > _MAX_MEMBERS:
                raise HttpError(
                    400, f"The body has more than {_MAX_MEMBERS:,} members of gzip."
                )
            piece = body[start : start + _PIECE_BYTES]
            try:
                content += decompressor.decompress(
                    piece, self._max_bytes + 1 - len(content)
                )
            except zlib.error as error:
                raise HttpError(400, f"The body is not valid gzip: {error}") from error
            self._check_size(len(content))
            start += len(piece) - len(decompressor.unused_data)
        if not decompressor.eof:
            raise HttpError(400, "The body is not valid gzip: its end is missing.")
        return bytes(content)

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise HttpError(
                413,
                f"The body of the request is larger than {self._max_bytes:,} bytes. "
                "Send fewer texts at a time.",
            )


class BodyLimits:
    """ASGI middleware that reads each body, in limits, before the application runs."""

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


async def until_disconnect(
    request: Request, work: Coroutine[Any, Any, Result]
) -> Result:
    """Returns the result of a coroutine, which is canceled if the client leaves.

    To be called after the body was read.

    Raises:
        ClientDisconnect: If the client left.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for each in (task, watch):
            each.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await each


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
