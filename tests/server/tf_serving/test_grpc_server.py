"""gRPC server: addresses, messages, load, requests that are given up, shutdown."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from tests.server.tf_serving.calls import classify, health, multi_inference, regress
from tests.server.tf_serving.clients import (
    Client,
    refusal,
    serving,
    wait_until,
)


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


def test_a_malformed_message_is_an_error_and_the_server_continues(base):
    with serving(base) as client:
        method = "/tensorflow.serving.PredictionService/Predict"
        call = client.channel.unary_unary(method)
        assert refusal(lambda: call(b"\xff" * 50))[0] == "INTERNAL"
        nothing = client.channel.stream_unary(method)
        assert refusal(lambda: nothing(iter([]))) == (
            "INTERNAL",
            "The request has no message.",
        )
        assert client.predict(text=[b"x"])["translation"] == [b"v2:x"]


def test_methods_for_other_signatures_are_refused(base):
    with serving(base) as client:
        for call, method in (
            (classify(), "Classification"),
            (regress(), "Regression"),
            (multi_inference(("classify", {})), "MultiInference"),
        ):
            code, message = refusal(lambda call=call: call(client))
            assert code == "UNIMPLEMENTED"
            assert message.startswith(
                f"t2t_keras.serve runs Predict only, not {method}"
            )


def send_nothing(channel, release: threading.Event) -> grpc.Future:
    """Opens a request and sends no message until `release` is set."""

    def messages():
        release.wait(60)
        yield b""

    method = "/tensorflow.serving.PredictionService/Predict"
    return channel.stream_unary(method).future(messages(), timeout=100)


@pytest.mark.slow
def test_requests_without_a_body_hold_nothing_and_end(base):
    """More of them than there are threads."""
    release = threading.Event()
    with serving(base, max_running=4, body_seconds=2.0, health=True) as client:
        with grpc.insecure_channel(client.address) as other:
            streams = [send_nothing(other, release) for _ in range(300)]
            for _ in range(20):
                assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
                assert client.states() == {2: "AVAILABLE"}
            for stream in streams:
                assert stream.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                assert stream.details() == (
                    "The message of the request did not arrive within 2 s."
                )
            release.set()


def test_all_but_predict_is_answered_under_full_load(base, tmp_path):
    """With as many requests as are allowed, and 300 more that are refused."""
    end = tmp_path / "end"
    with ThreadPoolExecutor(20) as pool, serving(base, max_running=1, health=True) as c:
        waiting = c.predict_until(end, pool)
        flood = [
            pool.submit(refusal, lambda: c.predict(text=[b"a"])) for _ in range(300)
        ]
        for _ in range(30):
            assert health("")(c) == b"\x08\x01"
            assert c.states() == {2: "AVAILABLE"}
            assert c.metadata("signature_def").model_spec.version.value == 2
        assert {each.result()[0] for each in flood} == {"RESOURCE_EXHAUSTED"}
        assert not waiting.done()
        end.touch()
        assert waiting.result()["translation"] == [bytes(end).upper()]


def test_stopping_finishes_requests_and_refuses_new_ones(base, tmp_path):
    end = tmp_path / "end"
    with ThreadPoolExecutor(2) as pool, serving(base) as client:
        waiting = client.predict_until(end, pool)
        stopped = pool.submit(client.stop, 60)
        wait_until(
            lambda: (
                refusal_or_none(client)
                == ("UNAVAILABLE", "The server is shutting down.")
            )
        )
        assert not waiting.done() and not stopped.done()
        end.touch()
        assert waiting.result()["translation"] == [bytes(end).upper()]
        stopped.result(60)
        assert refusal(lambda: client.predict(text=[b"a"]))[0] == "UNAVAILABLE"


def refusal_or_none(client):
    try:
        client.predict(text=[b"a"])
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return None


def test_stopping_waits_no_longer_than_the_grace_period(base, tmp_path):
    end = tmp_path / "end"
    with ThreadPoolExecutor(1) as pool, serving(base) as client:
        call = pool.submit(
            refusal, lambda: client.predict("wait", timeout=600, text=[bytes(end)])
        )
        wait_until(Path(f"{end}.begun").exists)
        start = time.monotonic()
        client.stop(0.1)
        assert time.monotonic() - start < 30
        assert call.result(60)[0] in ("CANCELLED", "UNAVAILABLE")
        end.touch()


def test_a_unix_domain_socket(base, tmp_path):
    path = tmp_path / "socket"
    with serving(base, socket_paths=[str(path)]):
        with grpc.insecure_channel(f"unix:{path}") as channel:
            client = Client(channel=channel)
            assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
