"""Clients that send or read ten bytes a second, over each protocol.

Each connects again when the server ends its connection.
"""

import contextlib
import itertools
import json
import random
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from benchmarks.serving_load.clients import make_request

_PAUSE_SECONDS = 0.1
_TEXT = b"a b c d e f g h"


def _http_request(path: str, body: Mapping[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: server\r\nContent-Length: {len(content)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n".encode() + content


def _rest_request() -> bytes:
    texts = [_TEXT.decode()] * 32
    return _http_request("/v1/models/translate:predict", {"instances": texts})


def _translation_api_request() -> bytes:
    texts = [_TEXT.decode()] * 32
    fields = {"q": texts, "source": "en", "target": "de", "alternatives": 3}
    return _http_request("/translate", fields)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Returns a frame of HTTP/2 (RFC 9113, section 4.1)."""
    head = len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4)
    return head + payload


def _header(name: str, value: str) -> bytes:
    """Returns a header that no table has (RFC 7541, section 6.2.2)."""
    parts = (part.encode() for part in (name, value))
    return b"\0" + b"".join(bytes([len(part)]) + part for part in parts)


# Types and flags of frames, and a setting.
_DATA, _HEADERS, _SETTINGS, _WINDOW_UPDATE = 0, 1, 4, 8
_END_STREAM, _END_HEADERS = 1, 4
_INITIAL_WINDOW_SIZE = 4
# A byte more of the answer to the first request may come.
_ONE_BYTE = _frame(_WINDOW_UPDATE, 0, 1, (1).to_bytes(4))


def _grpc_request() -> bytes:
    """Returns a call of Predict whose answer may have one byte at first."""
    message = make_request(_TEXT).SerializeToString()
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/tensorflow.serving.PredictionService/Predict",
        ":authority": "server",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    window = _INITIAL_WINDOW_SIZE.to_bytes(2) + (1).to_bytes(4)
    block = b"".join(itertools.starmap(_header, headers.items()))
    body = b"\0" + len(message).to_bytes(4) + message
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + _frame(_SETTINGS, 0, 0, window)
        + _frame(_HEADERS, _END_HEADERS, 1, block)
        + _frame(_DATA, _END_STREAM, 1, body)
    )


_REQUESTS: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {
        "gRPC": _grpc_request,
        "REST": _rest_request,
        "translation API": _translation_api_request,
    }
)


@contextlib.contextmanager
def slow_clients(protocol: str, address: str, count: int) -> Iterator[list[int]]:
    """Runs clients until the context ends; half of them read slowly, half write slowly.

    Yields:
        The number of connections so far of each client.
    """
    stop = threading.Event()
    host, port = address.rsplit(":", 1)
    connections = [0] * count

    def run(number: int) -> None:
        act = _write_slowly if number % 2 else _read_slowly
        # Not all at the same moment.
        stop.wait(random.Random(number).random() * _PAUSE_SECONDS)
        while not stop.is_set():
            connections[number] += 1
            with (
                contextlib.suppress(OSError),
                socket.create_connection((host, int(port)), 60) as connection,
            ):
                act(connection, protocol, stop)
            stop.wait(_PAUSE_SECONDS)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield connections
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _write_slowly(connection: socket.socket, protocol: str, stop: threading.Event):
    """Sends a request, a byte at a time, again and again."""
    # What comes back is not read, only the end of the connection is seen.
    for byte in itertools.cycle(_REQUESTS[protocol]()):
        connection.sendall(bytes([byte]))
        if stop.wait(_PAUSE_SECONDS):
            return


def _read_slowly(connection: socket.socket, protocol: str, stop: threading.Event):
    """Sends requests at once, and reads a byte of the answers at a time."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    connection.sendall(_REQUESTS[protocol]())
    connection.settimeout(_PAUSE_SECONDS)
    while not stop.wait(_PAUSE_SECONDS):
        with contextlib.suppress(TimeoutError):
            if protocol == "gRPC":
                # Frames are read at once; the answer comes as slowly as this allows.
                connection.sendall(_ONE_BYTE)
            if not connection.recv(2**16 if protocol == "gRPC" else 1):
                return
