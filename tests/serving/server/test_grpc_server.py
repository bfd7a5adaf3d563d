"""Ports and limits of the gRPC server."""

import grpc
import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.server.grpc_server import GrpcOptions, start_server
from tests.serving.server.clients import Client, refusal, serving


def test_a_port_that_is_taken_is_an_error(base):
    """Not a second server that shares the first one's requests."""
    with serving(base) as client:
        port = int(client.address.split(":")[1])
        with pytest.raises(UserError, match=f":{port} cannot be listened at"):
            start_server(None, GrpcOptions(port=port))


def test_large_messages_come_and_go(base):
    """Larger than the 4 MiB that gRPC allows by itself."""
    text = b"x" * (6 << 20)
    with serving(base) as client:
        unlimited = [("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(client.address, options=unlimited) as channel:
            (found,) = Client(channel=channel).predict(text=[text])["translation"]
        assert found == b"v2:" + text


def test_the_size_of_messages_can_be_limited(base):
    arguments = [("grpc.max_receive_message_length", 1000)]
    with serving(base, channel_arguments=arguments) as client:
        code, message = refusal(lambda: client.predict(text=[b"x" * 2000]))
        assert code == "RESOURCE_EXHAUSTED"
        assert "larger than max" in message
        assert client.predict(text=[b"x"])["translation"] == [b"v2:x"]


def test_a_method_that_is_not_there_is_not_implemented(base):
    with serving(base) as client:
        call = client.channel.unary_unary(
            "/tensorflow.serving.PredictionService/Translate"
        )
        assert refusal(lambda: call(b""))[0] == "UNIMPLEMENTED"


def test_what_is_no_message_is_an_error_and_the_server_lives(base):
    with serving(base) as client:
        call = client.channel.unary_unary(
            "/tensorflow.serving.PredictionService/Predict"
        )
        assert refusal(lambda: call(b"\xff" * 50))[0] == "INTERNAL"
        assert client.predict(text=[b"x"])["translation"] == [b"v2:x"]
