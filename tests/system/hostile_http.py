"""Random malformed HTTP requests to the REST API and the translation API."""

import gzip
import json
import random
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.system.hostile_requests import hostile_text

REST, TRANSLATION_API = "REST", "translation API"
_PATHS = MappingProxyType(
    {REST: "/v1/models/translate:predict", TRANSLATION_API: "/translate"}
)
# A body of more is refused.
MAX_BODY_BYTES = 2**20

# Statuses of a request that is not understood. Not 500, a bug of the server, nor 503,
# on which a client would try again.
REFUSED = frozenset(
    {400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 417, 422, 429, 431, 501, 505}
)
_OK = frozenset({200})


class HostileHttp(NamedTuple):
    """Bytes to send to one of the APIs, and what may come back.

    Attributes:
        api: `REST` or `TRANSLATION_API`.
        data: The request.
        statuses: Allowed statuses.
        answered: Whether an answer must come. Otherwise the server may also end the
            connection, since it cannot know where a request ends.
        rows: Number of translations; None if unknown.
    """

    api: str
    data: bytes
    statuses: frozenset[int]
    answered: bool = True
    rows: int | None = None


def hostile_http(count: int, seed: int) -> Iterator[HostileHttp]:
    """Yields requests of all kinds, in turn, each kind with other random values."""
    generator = random.Random(seed)
    kinds = (
        _odd_texts,
        _damaged_bytes,
        _damaged_json,
        _wrong_values,
        _much_text,
        _odd_path,
        _odd_headers,
        _odd_length,
        _odd_chunks,
        _odd_encoding,
        _odd_method,
    )
    for number in range(count):
        api = (REST, TRANSLATION_API)[number // len(kinds) % 2]
        yield kinds[number % len(kinds)](api, generator)


def _fields(api: str, texts: list[str]) -> dict[str, Any]:
    if api == REST:
        return {"instances": texts}
    return {"q": texts, "source": "en", "target": "de"}


def _valid_body(api: str) -> bytes:
    return json.dumps(_fields(api, ["a b c", "d"])).encode()


def _request(
    path: str, body: bytes, *headers: str, method: str = "POST", length: Any = None
) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: server",
        "Content-Type: application/json",
        "Connection: close",
        *headers,
    ]
    if length is None:
        length = len(body)
    if length != "":
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body


def _odd_texts(api: str, generator: random.Random) -> HostileHttp:
    """A proper request with unusual texts, which must be translated."""
    texts = [
        hostile_text(generator).decode(errors="replace")
        for _ in range(generator.randint(1, 3))
    ]
    fields = _fields(api, texts)
    body = json.dumps(fields, ensure_ascii=generator.random() < 0.5)
    # Line ends separate texts of the translation API; the number of texts stays.
    return HostileHttp(api, _request(_PATHS[api], body.encode()), _OK, rows=len(texts))


def _damaged_bytes(api: str, generator: random.Random) -> HostileHttp:
    """A proper request of which some bytes are others, missing or repeated."""
    data = bytearray(_request(_PATHS[api], _valid_body(api)))
    for _ in range(generator.randint(1, 6)):
        place = generator.randrange(len(data))
        change = generator.randrange(3)
        if change == 0:
            data[place] = generator.randrange(256)
        elif change == 1:
            del data[place : place + generator.randint(1, 9)]
        else:
            data[place:place] = data[place : place + generator.randint(1, 40)]
    if generator.random() < 0.1:
        data = bytearray(generator.randbytes(generator.randint(1, 3_000)))
    return HostileHttp(api, bytes(data), _OK | REFUSED, answered=False)


def _damaged_json(api: str, generator: random.Random) -> HostileHttp:
    body = _valid_body(api)
    bodies = (
        body[: generator.randrange(len(body) - 1)],
        b"[" * generator.choice((10, 1_000, 100_000)),
        b'{"a":' * generator.choice((10, 1_000, 100_000)),
        body.replace(b'"a b c"', b'"\xff\xfe"'),
        body.replace(b'"a b c"', b'"\n\x00"'),
        body.replace(b'"a b c"', b"'a'"),
        body.replace(b'"a b c"', b"1" * generator.choice((9, 5_000, 100_000))),
        body.replace(b'"a b c"', b"1e999"),
        body.replace(b'"a b c"', b"NaN"),
        generator.randbytes(generator.randint(0, 500)),
    )
    data = _request(_PATHS[api], generator.choice(bodies))
    return HostileHttp(api, data, REFUSED)


def _odd_value(generator: random.Random, depth: int = 0) -> Any:
    kinds = (
        lambda: None,
        lambda: generator.random() < 0.5,
        lambda: generator.choice((-1, 0, 2**31, 2**63, 2**64, -(2**70), 0.5, -0.0)),
        lambda: "\ud800",
        lambda: generator.choice(("", "a", "b64", "\x00", "predict")),
        lambda: [_odd_value(generator, depth + 1) for _ in range(depth < 4 and 3)],
        lambda: {
            generator.choice(("b64", "text", "a", "")): _odd_value(generator, depth + 1)
            for _ in range(depth < 4 and 2)
        },
    )
    return generator.choice(kinds)()


def _wrong_values(api: str, generator: random.Random) -> HostileHttp:
    """JSON of other fields, and values of other types."""
    fields: Any = _fields(api, ["a"])
    names = {
        REST: ("instances", "inputs", "signature_name"),
        TRANSLATION_API: ("q", "source", "target", "format", "alternatives"),
    }[api]
    for _ in range(generator.randint(1, 3)):
        fields[generator.choice(names)] = _odd_value(generator)
    if generator.random() < 0.2:
        del fields[generator.choice(tuple(fields))]
    if generator.random() < 0.1:
        fields = _odd_value(generator)
    body = json.dumps(fields).encode()
    # An odd value may be a text, or the value that a field has by default.
    return HostileHttp(api, _request(_PATHS[api], body), _OK | REFUSED)


def _much_text(api: str, generator: random.Random) -> HostileHttp:
    """More words, texts or rows than are allowed, in a body that is."""
    count = generator.choice((30_000, MAX_BODY_BYTES // 6))
    if api == REST:
        return HostileHttp(
            api,
            _request(_PATHS[api], json.dumps({"instances": ["a"] * count}).encode()),
            REFUSED,
        )
    words = "a " * count
    path, values = generator.choice(
        (
            ("/attention", {"q": words, "translated": words}),
            ("/translate", {"q": words}),
            ("/translate", {"q": f"<p>{words}</p>", "format": "html"}),
            ("/detect", {"q": words}),
        )
    )
    fields = {"source": "en", "target": "de", **values}
    return HostileHttp(api, _request(path, json.dumps(fields).encode()), REFUSED)


def _odd_path(api: str, generator: random.Random) -> HostileHttp:
    path = _PATHS[api]
    number = generator.choice((-1, 0, 2**63, 2**64, 10**30))
    paths = (
        path + "/" * generator.randint(1, 99),
        path.replace("translate", "other", 1) + "x",
        "/v1/models/translate/versions/" + f"{number}:predict",
        "/v1/models/translate/labels/%00:predict",
        "/v1/models/" + "%2e%2e%2f" * 20 + ":predict",
        "/../../etc/passwd",
        "/%ff%fe:predict",
        "/v1/models/" + "a" * generator.choice((1_000, 20_000)) + ":predict",
        # Slashes before the path are those of a base URL.
        "/x//" + path,
        "*",
        "http://other" + path[:-1],
        path[:-1] + "\u00e4",
        "/?" + "q=a&" * generator.choice((1, 5_000)),
    )
    data = _request(generator.choice(paths), _valid_body(api))
    return HostileHttp(api, data, REFUSED, answered=False)


def _odd_headers(api: str, generator: random.Random) -> HostileHttp:
    size = generator.choice((100, 10_000, 200_000))
    headers = (
        ["X: " + "a" * size],
        [f"X-{n}: a" for n in range(size // 50)],
        ["a" * size + ": x"],
        ["Host: other"],
        ["Expect: " + generator.choice(("100-continue", "something", ""))],
        ["Content-Type: " + generator.choice(("", "/", "text/plain; " * 99, "\x01"))],
        ["Upgrade: websocket", "Connection: Upgrade"],
        ["Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"],
        ["Origin: " + "\u00fc" * 99, "Access-Control-Request-Method: PUT"],
        ["Cookie: " + "=;" * 999],
        [": empty", "no colon"],
        ["Content-Type: multipart/form-data; boundary=" + "-" * 99],
    )
    data = _request(_PATHS[api], _valid_body(api), *generator.choice(headers))
    return HostileHttp(api, data, _OK | REFUSED, answered=False)


def _odd_length(api: str, generator: random.Random) -> HostileHttp:
    """A Content-Length that is not one, or not that of the body."""
    body = _valid_body(api)
    kind = generator.randrange(5)
    if kind == 0:
        length = generator.choice(("-1", "1.0", "+5", "0x10", "9" * 30, " ", "1 2"))
        return HostileHttp(
            api, _request(_PATHS[api], body, length=length), REFUSED, answered=False
        )
    if kind == 1:
        # The end is missing.
        length = len(body) + generator.choice((1, 1_000))
        return HostileHttp(
            api, _request(_PATHS[api], body, length=length), REFUSED, answered=False
        )
    if kind == 2:
        length = generator.randrange(len(body) - 1)
        return HostileHttp(api, _request(_PATHS[api], body, length=length), REFUSED)
    if kind == 3:
        other = f"Content-Length: {len(body) + 1}"
        data = _request(_PATHS[api], body, other)
        return HostileHttp(api, data, REFUSED, answered=False)
    body = b" " * (MAX_BODY_BYTES + generator.choice((1, 2**20)))
    return HostileHttp(api, _request(_PATHS[api], body), frozenset({413}))


def _odd_chunks(api: str, generator: random.Random) -> HostileHttp:
    body = _valid_body(api)
    good = f"{len(body):x}\r\n".encode() + body + b"\r\n"
    chunks = (
        good,
        good + b"zz\r\n\r\n",
        good + b"-1\r\n\r\n",
        f"{2**70:x}\r\n".encode() + body,
        good + b"0\r\nTrailer: x\r\n",
        b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"-",
        b"\r\n" + good,
        good[:-2] + b"XX0\r\n\r\n",
    )
    data = _request(
        _PATHS[api],
        generator.choice(chunks),
        "Transfer-Encoding: " + generator.choice(("chunked", "gzip", "chunked, x")),
        length=generator.choice(("", "", 5)),
    )
    return HostileHttp(api, data, REFUSED, answered=False)


def _odd_encoding(api: str, generator: random.Random) -> HostileHttp:
    body = gzip.compress(_valid_body(api))
    bodies = (
        body[:-1],
        body[:9],
        body[:5] + b"\xff" + body[6:12] + b"\xff\xff" + body[14:],
        b"",
        _valid_body(api),
        # A bomb: 50 MB in 50 kB.
        gzip.compress(bytes(50 * 2**20), 9) if generator.random() < 0.1 else b"\x1f",
    )
    encoding = generator.choice(("gzip", "gzip", "gzip", "x-gzip", "br", "gzip, gzip"))
    data = _request(
        _PATHS[api], generator.choice(bodies), f"Content-Encoding: {encoding}"
    )
    return HostileHttp(api, data, REFUSED)


def _odd_method(api: str, generator: random.Random) -> HostileHttp:
    method = generator.choice(
        ("GET", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "predict", "X" * 3_000)
    )
    data = _request(_PATHS[api], _valid_body(api), method=method)
    return HostileHttp(api, data, REFUSED, answered=False)
