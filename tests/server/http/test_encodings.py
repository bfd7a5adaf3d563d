"""Encodings in the heads of requests, and bodies of gzip."""

import gzip
import http.client
import json
import zlib

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from t2t_keras.server.http import requests
from t2t_keras.server.http.requests import BodyReader
from tests.server.http.test_server import running, serving


def post(port: int, body: bytes, *encodings: str) -> tuple[int, object]:
    """Returns the status and the size of the body, or the message of a refusal."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("POST", "/")
    connection.putheader("Content-Length", str(len(body)))
    for encoding in encodings:
        connection.putheader("Content-Encoding", encoding)
    connection.endheaders(body)
    answer = connection.getresponse()
    content = json.load(answer)
    connection.close()
    return answer.status, content


def test_an_encoding_is_named_in_any_form():
    body = gzip.compress(b"abc")
    with serving(BodyReader(1000, 60.0)) as port:
        for encodings in (["GZIP"], ["x-gzip"], ["gzip, identity"], ["", "gzip"]):
            assert post(port, body, *encodings) == (200, 3), encodings
        for encodings in ([], [""], ["identity"], ["identity,", "Identity"]):
            assert post(port, body, *encodings) == (200, len(body)), encodings
        for encodings in (["gzip, br"], ["br", "gzip"], ["gzip", "gzip"], ["gzip;x"]):
            status, message = post(port, body, *encodings)
            received = ", ".join(encodings)
            assert status == 415, encodings
            assert message == f"Content-Encoding must be gzip. Received: {received}"


def test_all_members_of_a_body_are_read():
    def members(*sizes):
        return b"".join(gzip.compress(bytes(size)) for size in sizes)

    with serving(BodyReader(100_000, 60.0)) as port:
        for sizes in ([3, 4], [0, 5, 0], [99_999, 1], [1] * 3000):
            assert post(port, members(*sizes), "gzip") == (200, sum(sizes)), sizes[:4]
        # The limit is on their sum.
        assert post(port, members(99_999, 2), "gzip")[0] == 413
        assert post(port, members(100_001), "gzip")[0] == 413
        for end in (members(4)[:-1], members(4)[:3], b"no gzip"):
            status, message = post(port, members(3) + end, "gzip")
            assert status == 400 and "The body is not valid gzip" in str(message), end


def test_members_are_limited(monkeypatch):
    """Empty ones would pass the limit on their sum, and take time."""
    monkeypatch.setattr(requests, "_MAX_MEMBERS", 20)
    with serving(BodyReader(1000, 60.0)) as port:
        assert post(port, gzip.compress(b"a") * 20, "gzip") == (200, 20)
        status, message = post(port, gzip.compress(b"") * 21, "gzip")
        assert (status, message) == (400, "The body has more than 20 members of gzip.")


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_members_may_end_anywhere_in_a_piece(monkeypatch, piece):
    monkeypatch.setattr(requests, "_PIECE_BYTES", piece)
    compressor = zlib.compressobj(0, wbits=31)
    body = compressor.compress(bytes(100)) + compressor.flush()
    with serving(BodyReader(1000, 60.0)) as port:
        assert post(port, body * 3 + gzip.compress(b"ab"), "gzip") == (200, 302)


def test_an_answer_has_no_encoding_that_the_client_refuses():
    async def text(_: Request) -> PlainTextResponse:
        return PlainTextResponse("a" * 1000)

    app = Starlette(routes=[Route("/", text)], middleware=[Middleware(GZipMiddleware)])
    with running(app) as port:
        for accepted, compressed in (
            ("gzip", True),
            ("br, GZIP; q=0.5", True),
            ("gzip;q=nonsense", True),
            ("gzip;q=0", False),
            ("br;q=1, gzip ; Q=0.000, identity", False),
            ("x-gzip;q=0.0", False),
            ("", False),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/", headers={"Accept-Encoding": accepted})
            answer = connection.getresponse()
            expected = "gzip" if compressed else None
            assert answer.headers["Content-Encoding"] == expected, accepted
            content = answer.read()
            assert content == b"a" * 1000 or gzip.decompress(content) == b"a" * 1000
            connection.close()
