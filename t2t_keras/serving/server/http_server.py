"""HTTP server of the embedded server, for any ASGI application, and bodies of requests.

It runs uvicorn in the event loop of the gRPC server. A client that sends slowly, or
nothing, holds a connection and no thread, and only for a limited time.
"""

import asyncio
import contextlib
import socket
import zlib
from typing import Any

import h11
import uvicorn
from starlette.requests import ClientDisconnect, Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from t2t_keras.serving.server.grpc_server import cannot_listen_error, join_address

# Longest time in which the head of a request must arrive.
_HEAD_SECONDS = 20.0
_KEEP_ALIVE_SECONDS = 75


class HttpError(Exception):
    """A refusal.

    Args:
        status: Status code of HTTP.
        message: For the client.
    """

    def __init__(self, status: int, message: str):
        super().__init__(status, message)
        self.status = status
        self.message = message


class HttpServer:
    """HTTP server of one application; methods are to be called in the event loop.

    Args:
        app: ASGI application. Its lifespan is that of the server.
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
    """

    def __init__(self, app: Any, host: str, port: int):
        self._address = host, port
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Starts to listen; returns the port.

        Raises:
            UserError: If the port cannot be listened at.
        """
        host, port = self._address
        try:
            listener = socket.create_server(
                (host, port),
                family=socket.AF_INET6 if ":" in host else socket.AF_INET,
                backlog=1024,
            )
        except OSError as error:
            raise cannot_listen_error(join_address(host, port)) from error
        listener.setblocking(False)
        self._task = asyncio.create_task(self._server.serve([listener]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0.01)
        return listener.getsockname()[1]

    async def stop(self) -> None:
        """Ends; answers that are being sent have a second."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task


class _Protocol(H11Protocol):
    """Uvicorn's protocol with a limit on the time of a request's head."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._set_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def _set_timer(self) -> None:
        """Runs a timer while a head is incomplete, from its first byte."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


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
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", "x-gzip", ""):
            raise HttpError(415, f"Content-Encoding must be gzip. Received: {encoding}")
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
        if encoding in ("gzip", "x-gzip"):
            return self._decompress(bytes(body))
        return bytes(body)

    def _decompress(self, body: bytes) -> bytes:
        decompressor = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            content = decompressor.decompress(body, self._max_bytes + 1)
        except zlib.error as error:
            raise HttpError(400, f"The body is not valid gzip: {error}") from error
        self._check_size(len(content))
        if not decompressor.eof:
            raise HttpError(400, "The body is not valid gzip: its end is missing.")
        return content

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise HttpError(
                413,
                f"The body of the request is larger than {self._max_bytes:,} bytes. "
                "Send fewer texts at a time.",
            )


async def until_disconnect(request: Request, work: Any) -> Any:
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
