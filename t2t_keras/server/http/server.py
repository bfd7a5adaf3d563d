"""HTTP server for any ASGI application, and addresses to listen on.

It runs uvicorn in the event loop of its caller. A client that sends slowly, or nothing,
holds a connection and no thread, and only for a limited time.
"""

import asyncio
import socket
from typing import Any, cast

import h11
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from t2t_keras.errors import UserError
from t2t_keras.server.http.accepting import Acceptor
from t2t_keras.server.http.encodings import AcceptedEncodings
from t2t_keras.server.http.lingering import LingeringTransport
from t2t_keras.server.http.requests import HttpError, error_response

# Connections that wait to be accepted.
_BACKLOG = 1024
# Longest time in which the head of a request must arrive.
_HEAD_SECONDS = 20.0
# Longest time in which a client must take an answer that is too large for the buffers.
_ANSWER_SECONDS = 120.0
_KEEP_ALIVE_SECONDS = 75
# Times between two looks whether a client that sends no more has left.
_FIRST_LOOK_SECONDS = 0.05
_LAST_LOOK_SECONDS = 2.0


class HttpServer:
    """HTTP server of one application; methods are to be called in the event loop.

    Args:
        app: ASGI application. Its lifespan is that of the server.
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
        grace_seconds: Longest wait for requests under way when it stops.
    """

    def __init__(self, app: Any, host: str, port: int, grace_seconds: int = 1):
        self._address = host, port
        config = uvicorn.Config(
            _UnambiguousRequests(AcceptedEncodings(app)),
            http=_Protocol,
            ws="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=grace_seconds,
        )
        config.load()
        self._config = config
        self._server = uvicorn.Server(config)
        self._task: asyncio.Task[None] | None = None
        self._acceptor: Acceptor | None = None

    async def start(self) -> int:
        """Starts to listen; returns the port.

        Raises:
            UserError: If the port cannot be listened at.
        """
        host, port = self._address
        # "::" is all addresses, those of IPv4 as well, as for gRPC.
        is_dual = ":" in host and {*host} <= {*":0"} and socket.has_dualstack_ipv6()
        try:
            listener = socket.create_server(
                (host, port),
                family=socket.AF_INET6 if ":" in host else socket.AF_INET,
                backlog=_BACKLOG,
                dualstack_ipv6=is_dual,
            )
        except OSError as error:
            raise cannot_listen_error(join_address(host, port)) from error
        listener.setblocking(False)
        self._task = asyncio.create_task(self._server.serve([]))
        while not self._server.started:
            if self._task.done():
                listener.close()
                self._task.result()
            await asyncio.sleep(0.01)
        self._acceptor = Acceptor(listener, self._make_protocol)
        return listener.getsockname()[1]

    async def stop(self) -> None:
        """Refuses new requests, and ends when those under way are answered."""
        if self._acceptor is not None:
            await self._acceptor.stop()
        self._server.should_exit = True
        if self._task is not None:
            await self._task

    def _make_protocol(self) -> asyncio.Protocol:
        return _Protocol(
            config=self._config,
            server_state=self._server.server_state,
            app_state=self._server.lifespan.state,
        )


class _UnambiguousRequests:
    """Middleware that refuses what another server on the way may read otherwise."""

    def __init__(self, app: Any):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (error := _ambiguity(scope)):
            response = error_response(error)
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _ambiguity(scope: Scope) -> HttpError | None:
    version = scope["http_version"]
    if version not in ("1.0", "1.1"):
        return HttpError(505, f"HTTP/{version} is not supported. Use HTTP/1.1.")
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" in names and b"content-length" in names:
        return HttpError(
            400, "A request has either Content-Length or Transfer-Encoding."
        )
    if b"transfer-encoding" in names and version == "1.0":
        return HttpError(400, "HTTP/1.0 has no Transfer-Encoding.")
    return None


class _Protocol(H11Protocol):
    """Uvicorn's protocol with limits on the time of a request's head and of answers.

    An answer reaches a client also while it is still sending its request.
    """

    _timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None
    _reset_timer: asyncio.TimerHandle | None = None
    _lingering: LingeringTransport

    def connection_made(self, transport: Any) -> None:
        self._lingering = LingeringTransport(
            transport,
            self.loop,
            lambda: self.conn.their_state in (h11.SEND_BODY, h11.ERROR),
        )
        super().connection_made(cast(asyncio.Transport, self._lingering))
        self._set_timer()

    def data_received(self, data: bytes) -> None:
        if self._lingering.lingers:
            self._lingering.discard(data)
            return
        super().data_received(data)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lingering.stop_timer()
        self._stop_timer()
        self._stop_answer_timer()
        self._stop_reset_timer()

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns whether the connection stays open for an answer.

        A client that sends no more may still read, or it has left. An interim answer
        tells: the system of a client that has left resets the connection. HTTP/1.0 has
        none, so its clients count as having left.
        """
        is_asked = self.cycle is not None and not self.cycle.response_complete
        if not is_asked or self.conn.their_state is h11.SEND_BODY:
            return False
        if self.conn.their_http_version != b"1.1":
            return False
        if self.conn.our_state is h11.SEND_RESPONSE:
            interim = h11.InformationalResponse(status_code=100, headers=[])
            self.transport.write(self.conn.send(interim) or b"")
        self._look_for_reset(_FIRST_LOOK_SECONDS)
        return True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The next request may have come with this one.
        if self._reset_timer is not None and self.cycle.response_complete:
            self.transport.close()

    def _look_for_reset(self, seconds: float) -> None:
        """Ends the connection if the client has reset it, now or later."""
        connection = self.transport.get_extra_info("socket")
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
            return
        self._reset_timer = self.loop.call_later(
            seconds, self._look_for_reset, min(2 * seconds, _LAST_LOOK_SECONDS)
        )

    def _stop_reset_timer(self) -> None:
        if self._reset_timer is not None:
            self._reset_timer.cancel()
            self._reset_timer = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer_timer = self.loop.call_later(_ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_answer_timer()

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

    def _stop_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None


def check_address(host: str, port: int) -> None:
    """Raises `UserError` if a port is in use, or the host is not this machine's."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family) as probe:
            # As gRPC does: connections that have just ended do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise cannot_listen_error(join_address(host, port)) from error


def join_address(host: str, port: int) -> str:
    """Returns host:port, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def cannot_listen_error(address: str) -> UserError:
    """Returns the error of an address that is in use, or that is not this machine's."""
    return UserError(
        f"{address} cannot be listened at. Stop what uses the port, or choose another."
    )
