"""Counter of running requests, which a graceful shutdown waits for."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from t2t_keras.serving.server.request_counter import RequestCounter


class Service:
    """A method and a stream that wait for `gate`; the request can ask for an error."""

    def __init__(self):
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)
        self.request_counter = RequestCounter()

    def method(self, request, context):
        self.begun.release()
        assert self.gate.wait(60)
        if request == b"raise":
            raise ValueError("as asked")
        if request == b"abort":
            context.abort(grpc.StatusCode.NOT_FOUND, "as asked")
        return request

    def stream(self, request, context):
        self.begun.release()
        assert self.gate.wait(60)
        yield request


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def channel(service) -> Iterator[grpc.Channel]:
    server = grpc.server(ThreadPoolExecutor(8), interceptors=[service.request_counter])
    methods = {
        "method": grpc.unary_unary_rpc_method_handler(service.method),
        "stream": grpc.unary_stream_rpc_method_handler(service.stream),
    }
    handler = grpc.method_handlers_generic_handler("tests", methods)
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("localhost:0")
    server.start()
    with grpc.insecure_channel(f"localhost:{port}") as channel:
        yield channel
    server.stop(None).wait()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"answer", grpc.StatusCode.OK),
        (b"raise", grpc.StatusCode.UNKNOWN),
        (b"abort", grpc.StatusCode.NOT_FOUND),
    ],
)
def test_calls_are_counted_until_they_end(service, channel, request_, code):
    assert service.request_counter.wait_until_none(0)
    call = channel.unary_unary("/tests/method")
    calls = [call.future(request_) for _ in range(2)]
    for _ in calls:
        assert service.begun.acquire(timeout=60)
    assert not service.request_counter.wait_until_none(0.1)
    service.gate.set()
    assert service.request_counter.wait_until_none(60)
    assert [each.code() for each in calls] == [code] * 2
    # The counter does not go below zero.
    assert call(b"answer") == b"answer"
    assert service.request_counter.wait_until_none(60)


def test_a_canceled_call_is_not_waited_for(service, channel):
    call = channel.unary_unary("/tests/method").future(b"answer")
    assert service.begun.acquire(timeout=60)
    assert not service.request_counter.wait_until_none(0)
    call.cancel()
    assert service.request_counter.wait_until_none(60)
    assert not service.gate.is_set()
    service.gate.set()


def test_streams_and_unknown_methods_are_not_counted(service, channel):
    stream = channel.unary_stream("/tests/stream")(b"a")
    assert service.begun.acquire(timeout=60)
    assert service.request_counter.wait_until_none(0)
    service.gate.set()
    assert list(stream) == [b"a"]
    with pytest.raises(grpc.RpcError, match="Method not found"):
        channel.unary_unary("/tests/none")(b"a")
    assert service.request_counter.wait_until_none(0)
