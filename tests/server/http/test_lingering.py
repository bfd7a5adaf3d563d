"""Refusals reach clients that are still sending their bodies, which end some day."""

import gzip
import http.client
import socket
import time

import pytest
from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette

from t2t_keras.server.http import lingering
from t2t_keras.server.http.requests import BodyLimits, BodyReader
from t2t_keras.server.http.server import HttpServer
from tests.server.http.test_server import head, serving

# More than the buffers of both sockets.
SIZE = 20_000_000


def chunks():
    for _ in range(SIZE // 2**16):
        yield bytes(2**16)


def refuse(port: int, body, **headers) -> tuple[int, str]:
    """Returns the answer to a client that first sends all, then reads."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/", body, headers)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content


@pytest.mark.parametrize("body", [bytes(SIZE), None], ids=["length", "chunks"])
def test_a_client_that_sends_before_it_reads_gets_its_refusal(body):
    with serving(BodyReader(1000, 60.0)) as port:
        for _ in range(3):
            status, content = refuse(port, body or chunks())
            assert status == 413 and "larger than 1,000 bytes" in content
            status, _ = refuse(port, body or chunks(), **{"Content-Encoding": "br"})
            assert status == 415
        assert refuse(port, gzip.compress(b""), **{"Content-Encoding": "gzip"})[0] < 300


def test_a_client_that_asks_is_told_before_it_sends():
    """curl asks in this way if a body has a megabyte or more."""
    with serving(BodyReader(1000, 60.0)) as port:
        for size, answer in ((1001, b"HTTP/1.1 413 "), (1000, b"HTTP/1.1 100 ")):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(head(size, "Expect: 100-continue"))
                assert client.recv(13) == answer


def is_closed(client: socket.socket, seconds: float) -> bool:
    """Sends slowly; returns whether the connection is closed before the time is up."""
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            client.sendall(bytes(1000))
            time.sleep(0.01)
    except OSError:
        return True
    return False


def begin(port: int) -> socket.socket:
    """Returns a connection after its refusal."""
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(head(10**12))
    answer = b"".join(iter(lambda: client.recv(10_000), b""))
    assert answer.startswith(b"HTTP/1.1 413 ")
    return client


@pytest.mark.slow
def test_a_client_that_never_ends_is_left(monkeypatch):
    with serving(BodyReader(1000, 60.0)) as port:
        with begin(port) as client:
            assert not is_closed(client, 1.0)
        monkeypatch.setattr(lingering, "_SECONDS", 0.3)
        with begin(port) as client:
            assert is_closed(client, 60)
        monkeypatch.setattr(lingering, "_SECONDS", 600.0)
        monkeypatch.setattr(lingering, "_BYTES", 50_000)
        with begin(port) as client:
            assert is_closed(client, 60)


def test_a_client_that_never_ends_does_not_keep_the_server():
    with start_blocking_portal() as portal:
        app = BodyLimits(Starlette(), 1000, 60.0)
        server = HttpServer(app, "127.0.0.1", 0, grace_seconds=60)
        with begin(portal.call(server.start)):
            start = time.monotonic()
            portal.call(server.stop)
            assert time.monotonic() - start < 30
