"""HTTP server: clients that send slowly, nothing, or nonsense; memory for bodies."""

import asyncio
import contextlib
import http.client
import random
import socket
import threading
import time

import pytest
from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from t2t_keras.errors import UserError
from t2t_keras.server.http import server as http_server
from t2t_keras.server.http.requests import BodyReader, HttpError, until_disconnect
from t2t_keras.server.http.server import HttpServer, check_address, join_address


@contextlib.contextmanager
def running(app: Starlette, host: str = "127.0.0.1"):
    """Serves an application; yields its port."""
    with start_blocking_portal() as portal:
        server = HttpServer(app, host, 0)
        try:
            yield portal.call(server.start)
        finally:
            portal.call(server.stop)


def serving(reader: BodyReader):
    """Serves an application that answers with the size of a body; yields its port."""

    async def size(request: Request) -> JSONResponse:
        try:
            return JSONResponse(len(await reader.read(request)))
        except HttpError as error:
            return JSONResponse(error.message, error.status, {"Connection": "close"})

    return running(Starlette(routes=[Route("/", size, methods=["POST"])]))


def send(port: int, *parts: bytes, pause: float = 0.0) -> bytes:
    """Sends parts of a request; returns all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with contextlib.suppress(OSError):
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        with contextlib.suppress(ConnectionResetError):
            return b"".join(iter(lambda: connection.recv(10_000), b""))
    return b""


def head(size: int, *headers: str) -> bytes:
    lines = ["POST / HTTP/1.1", "Host: a", f"Content-Length: {size}", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


@pytest.mark.slow
def test_a_head_that_arrives_slowly_or_never_ends_the_connection(monkeypatch):
    monkeypatch.setattr(http_server, "_HEAD_SECONDS", 0.3)
    with serving(BodyReader(1000, 60.0)) as port:
        start = time.monotonic()
        assert send(port) == b""
        assert send(port, *[b"P", b"O", b"S", b"T"] * 3, pause=0.05) == b""
        assert 0.5 < time.monotonic() - start < 30
        # A body may take longer than a head.
        answer = send(port, head(3), *b"a b c".split(), pause=0.2)
        assert answer.endswith(b"\r\n\r\n3")


@pytest.mark.slow
def test_a_connection_that_waits_for_its_next_request_has_more_time(monkeypatch):
    monkeypatch.setattr(http_server, "_HEAD_SECONDS", 0.3)
    with serving(BodyReader(1000, 60.0)) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(2):
            connection.request("POST", "/", "x")
            assert connection.getresponse().read() == b"1"
            kept = connection.sock
            time.sleep(0.6)
        # The beginning of a head ends the patience.
        kept.sendall(b"POST / HT")
        assert kept.recv(10_000) == b""
        connection.close()


def test_a_client_that_does_not_take_its_answer_is_left(monkeypatch):
    monkeypatch.setattr(http_server, "_ANSWER_SECONDS", 0.5)
    ended = threading.Event()

    async def large(_: Request) -> StreamingResponse:
        async def parts():
            try:
                for _ in range(200):
                    yield bytes(2**18)
            finally:
                ended.set()

        return StreamingResponse(parts())

    app = Starlette(routes=[Route("/", large, methods=["POST"])])
    with running(app) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head(0))
        assert ended.wait(60)
        # One that takes it slowly, but takes it, gets all.
        assert len(send(port, head(0), pause=0.2)) > 200 * 2**18


def test_bodies_share_the_memory():
    """Of 16 times the size of one; what is taken becomes free again."""
    with serving(BodyReader(100_000, 60.0)) as port:
        with contextlib.ExitStack() as stack:
            for _ in range(16):
                connection = socket.create_connection(("127.0.0.1", port))
                stack.enter_context(connection)
                connection.sendall(head(100_000) + b"x" * 99_999)
            deadline = time.monotonic() + 60
            while b"503" not in send(port, head(60_000), b"x" * 60_000)[:20]:
                assert time.monotonic() < deadline
        while not send(port, head(60_000), b"x" * 60_000).endswith(b"60000"):
            assert time.monotonic() < deadline


def test_nonsense_harms_nobody():
    """Random bytes, and random changes of a valid request."""
    rng = random.Random(3)
    valid = head(5, "Content-Encoding: gzip", "Expect: 100-continue") + b"abcde"
    with serving(BodyReader(1000, 1.0)) as port:
        for _ in range(300):
            data = bytearray(valid)
            for _ in range(rng.randint(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            if rng.random() < 0.2:
                data = bytearray(rng.randbytes(rng.randint(1, 200)))
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(data)
        assert send(port, head(3), b"abc").endswith(b"3")


def test_all_addresses_are_those_of_ipv4_too():
    host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    with running(Starlette(), host) as port:
        assert b" 404 " in send(port, head(0, "Connection: close"))


def test_an_address_is_checked_before_anything_else():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1:{port} cannot be listened at"):
            check_address("127.0.0.1", port)
    check_address("127.0.0.1", port)
    with pytest.raises(UserError, match=r"203\.0\.113\.9:1 cannot be listened at"):
        check_address("203.0.113.9", 1)
    assert join_address("::1", 8500) == "[::1]:8500"


def test_a_client_that_ends_its_side_gets_its_answer():
    left = threading.Event()

    async def wait(request: Request) -> JSONResponse:
        async def work() -> int:
            await asyncio.sleep(0.3)
            return len(await request.body())

        await request.body()
        try:
            return JSONResponse(await until_disconnect(request, work()))
        except ClientDisconnect:
            left.set()
            raise

    request = b"POST / HTTP/1.%d\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
    app = Starlette(routes=[Route("/", wait, methods=["POST"])])
    with running(app) as port:
        for count in (1, 2):
            start = time.monotonic()
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(count * (request % 1))
                client.shutdown(socket.SHUT_WR)
                received = b"".join(iter(lambda: client.recv(10_000), b""))
            assert received.startswith(b"HTTP/1.1 100 ")
            assert received.count(b"HTTP/1.1 200 ") == count
            assert received.endswith(b"\r\n\r\n3")
            # Not after the time that a connection may wait for its next request.
            assert time.monotonic() - start < 30
        assert not left.is_set()
        # One that has left is told from it; with HTTP/1.0 it is not.
        for minor in (0, 1):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(request % minor)
            assert left.wait(60)
            left.clear()


@pytest.mark.parametrize(
    ("version", "fields", "status"),
    [
        ("1.1", "Content-Length: 3\r\nTransfer-Encoding: chunked", 400),
        ("1.0", "Transfer-Encoding: chunked", 400),
        ("9.9", "Content-Length: 3", 505),
        ("2.0", "Content-Length: 3", 505),
        ("1.1", "Transfer-Encoding: chunked", 200),
    ],
)
def test_requests_that_others_read_otherwise_are_refused(version, fields, status):
    body = "3\r\nabc\r\n0\r\n\r\n" if "chunked" in fields else "abc"
    request = f"POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n\r\n{body}"
    smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with serving(BodyReader(1000, 60.0)) as port:
        answer = send(port, (request + smuggled).encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    # What follows is no request of its own unless the first was taken.
    assert answer.count(b"HTTP/1.1 ") == (2 if status == 200 else 1)
