"""gRPC server: ports, message limits, graceful shutdown."""

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.server.grpc_server import (
    GrpcOptions,
    RunningServer,
    start_server,
)
from t2t_keras.serving.server.health import HealthService
from t2t_keras.serving.server.request_counter import RequestCounter
from tests.serving.server.clients import Client, refusal, serving


def test_a_port_that_is_taken_is_an_error(base):
    """Two servers must not share a port, and with it the requests."""
    with serving(base) as client:
        port = int(client.address.split(":")[1])
        with pytest.raises(UserError, match=f":{port} cannot be listened at"):
            start_server(None, GrpcOptions(port=port))


def test_large_messages_are_allowed(base):
    """Larger than gRPC's default limit of 4 MiB."""
    text = b"x" * (6 << 20)
    with serving(base) as client:
        unlimited = [("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(client.address, options=unlimited) as channel:
            (answer,) = Client(channel=channel).predict(text=[text])["translation"]
        assert answer == b"v2:" + text


def test_the_size_of_messages_can_be_limited(base):
    arguments = [("grpc.max_receive_message_length", 1000)]
    with serving(base, channel_arguments=arguments) as client:
        code, message = refusal(lambda: client.predict(text=[b"x" * 2000]))
        assert code == "RESOURCE_EXHAUSTED"
        assert "larger than max" in message
        assert client.predict(text=[b"x"])["translation"] == [b"v2:x"]


def test_an_unknown_method_is_unimplemented(base):
    with serving(base) as client:
        call = client.channel.unary_unary(
            "/tensorflow.serving.PredictionService/Translate"
        )
        assert refusal(lambda: call(b""))[0] == "UNIMPLEMENTED"


def test_a_malformed_message_is_an_error_and_the_server_continues(base):
    with serving(base) as client:
        call = client.channel.unary_unary(
            "/tensorflow.serving.PredictionService/Predict"
        )
        assert refusal(lambda: call(b"\xff" * 50))[0] == "INTERNAL"
        assert client.predict(text=[b"x"])["translation"] == [b"v2:x"]


class Methods:
    """gRPC methods: `answer` waits for `gate`, `stuck` until its call is canceled.

    `stuck` is like a call that gRPC neither starts nor refuses: it is not counted, and
    ends only when it is canceled.
    """

    def __init__(self):
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)

    def answer(self, request, context):
        self.begun.release()
        assert self.gate.wait(60)
        return request

    def stuck(self, request, context):
        cancelled = threading.Event()
        assert context.add_callback(cancelled.set)
        self.begun.release()
        cancelled.wait(60)
        yield request

    def start(self):
        """Returns a server with both methods."""
        request_counter = RequestCounter()
        server = grpc.server(ThreadPoolExecutor(8), interceptors=[request_counter])
        methods = {
            "answer": grpc.unary_unary_rpc_method_handler(self.answer),
            "stuck": grpc.unary_stream_rpc_method_handler(self.stuck),
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("tests", methods),)
        )
        port = server.add_insecure_port("localhost:0")
        server.start()
        return RunningServer(server, None, request_counter, port, HealthService())


def test_stopping_waits_only_for_counted_requests():
    methods = Methods()
    server = methods.start()
    with grpc.insecure_channel(f"localhost:{server.port}") as channel:
        stuck = channel.unary_stream("/tests/stuck")(b"")
        answers = [channel.unary_unary("/tests/answer").future(b"a") for _ in range(3)]
        for _ in range(4):
            assert methods.begun.acquire(timeout=60)
        end = threading.Thread(target=server.stop, args=(600,), daemon=True)
        end.start()
        end.join(0.2)
        assert end.is_alive()
        methods.gate.set()
        end.join(60)
        assert not end.is_alive()
        assert [each.result() for each in answers] == [b"a"] * 3
        assert stuck.code() is grpc.StatusCode.UNAVAILABLE


def test_stopping_waits_no_longer_than_the_grace_period():
    methods = Methods()
    server = methods.start()
    with grpc.insecure_channel(f"localhost:{server.port}") as channel:
        answer = channel.unary_unary("/tests/answer").future(b"a")
        assert methods.begun.acquire(timeout=60)
        server.stop(0.1)
        assert answer.code() is grpc.StatusCode.UNAVAILABLE
    methods.gate.set()
