"""Calls to a server that is not there, or slow, or wrong, or as it should be."""

import subprocess
import threading
import time

import grpc
import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.client.calls import ModelSpec, PredictionCalls
from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.retries import RetryPolicy
from t2t_keras.serving.client.tensors import string_tensor
from tests.serving.fake_server import RefusalError, read_texts, serve, shout

Code = grpc.StatusCode
QUICK = RetryPolicy(retries=3, first_wait_seconds=0.01)


def calls_to(server, model=None, **settings):
    defaults = {
        "timeout_seconds": 30.0,
        "retry": QUICK,
        "credentials": None,
        "max_message_bytes": 2**20,
    }
    return PredictionCalls(server, model or ModelSpec(), **defaults | settings)


def asked(calls, *texts):
    """Returns what comes of a call, which is closed after it."""
    try:
        return calls.predict("serving_default", {"text": string_tensor(texts)})
    finally:
        calls.close()


def failing(*codes):
    """Returns an answer that is refused so many times, then given."""
    left = list(codes)

    def answer(request):
        if left:
            raise RefusalError(left.pop(0))
        return shout(request)

    return answer


def test_an_answer_is_lists_by_name():
    with serve(shout) as (server, service):
        found = asked(calls_to(server), "ab", "c" * 24)
    assert found == {
        "translation": [b"AB", b"C" * 20],
        "score": [-0.25, -3.0],
        "truncated": [False, True],
    }
    (request,) = service.requests
    assert read_texts(request) == [b"ab", b"c" * 24]
    assert request.model_spec.name == "translate"
    assert request.model_spec.signature_name == "serving_default"
    # The newest version, which is what naming none means.
    assert request.model_spec.WhichOneof("version_choice") is None


@pytest.mark.parametrize(
    ("model", "choice", "text"),
    [
        (ModelSpec("other"), None, "model 'other'"),
        (ModelSpec("m", version=0), "version", "model 'm', version 0"),
        (ModelSpec("m", 7), "version", "model 'm', version 7"),
        (ModelSpec("m", label="stable"), "version_label", "model 'm', version stab"),
    ],
)
def test_the_model_is_the_one_named(model, choice, text):
    with serve(shout) as (server, service):
        asked(calls_to(server, model), "a")
    (request,) = service.requests
    spec = request.model_spec
    assert (spec.name, spec.WhichOneof("version_choice")) == (model.name, choice)
    assert spec.version.value == (model.version or 0)
    assert spec.version_label == model.label
    assert str(model).startswith(text)


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED])
def test_a_server_without_time_is_asked_again(code):
    with serve(failing(code, code)) as (server, service):
        assert asked(calls_to(server), "a")["translation"] == [b"A"]
    assert len(service.requests) == 3


def test_and_not_for_ever():
    with serve(failing(*[Code.UNAVAILABLE] * 9)) as (server, service):
        with pytest.raises(ServerError, match="tries: 4") as raised:
            asked(calls_to(server), "a")
    assert raised.value.code is Code.UNAVAILABLE
    assert len(service.requests) == 4


@pytest.mark.parametrize(
    "code",
    [Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.INTERNAL, Code.FAILED_PRECONDITION],
)
def test_what_would_not_help_is_not_repeated(code):
    with serve(failing(code)) as (server, service):
        with pytest.raises(ServerError, match="as the test wants it") as raised:
            asked(calls_to(server), "a")
    assert raised.value.code is code
    assert len(service.requests) == 1


def test_a_slow_server_is_left_when_time_is_over():
    ended = threading.Event()

    def sleep(request):
        ended.wait(60)
        return shout(request)

    with serve(sleep) as (server, service):
        started = time.monotonic()
        with pytest.raises(ServerError, match=r"timeout_seconds=1[)]") as raised:
            asked(calls_to(server, timeout_seconds=1.0), "a")
        waited = time.monotonic() - started
        ended.set()
    assert raised.value.code is Code.DEADLINE_EXCEEDED
    assert len(service.requests) == 1
    assert 1.0 <= waited < 30  # the server would have taken 60


def test_retries_end_with_the_time_too():
    patient = RetryPolicy(10**9, first_wait_seconds=0.02, longest_wait_seconds=0.02)
    with serve(failing(*[Code.UNAVAILABLE] * 10**5)) as (server, service):
        started = time.monotonic()
        with pytest.raises(ServerError) as raised:
            asked(calls_to(server, timeout_seconds=1.0, retry=patient), "a")
        assert 0.9 < time.monotonic() - started < 30
    assert raised.value.code in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)
    assert len(service.requests) > 5


def test_nobody_there():
    with serve(shout) as (server, _):
        pass
    with pytest.raises(ServerError, match=f"No answer from {server}.*is this its port"):
        asked(calls_to(server), "a")


def test_a_server_that_comes_later_is_found():
    """A channel by itself would look again after seconds only."""
    with serve(shout) as (server, _):
        pass
    many = RetryPolicy(200, first_wait_seconds=0.1, longest_wait_seconds=0.1)
    calls = calls_to(server, retry=many)
    found = []
    waiting = threading.Thread(target=lambda: found.append(asked(calls, "a")))
    waiting.start()
    time.sleep(0.3)
    assert found == []
    with serve(shout, address=server):
        waiting.join(60)
    assert found[0]["translation"] == [b"A"]


def test_a_closed_client_does_not_ask():
    with serve(shout) as (server, service):
        calls = calls_to(server)
        calls.close()
        calls.close()
        with pytest.raises(ServerError, match="The client was closed"):
            calls.predict("serving_default", {})
    assert service.requests == []


def test_closing_ends_a_call_that_waits_to_be_repeated():
    with serve(failing(*[Code.UNAVAILABLE] * 99)) as (server, service):
        slow = RetryPolicy(99, first_wait_seconds=1e6, longest_wait_seconds=1e6)
        calls = calls_to(server, retry=slow, timeout_seconds=1e9)
        failed = []

        def wait():
            try:
                asked(calls, "a")
            except ServerError as error:
                failed.append(error.code)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while not service.requests:
            time.sleep(0.01)
        time.sleep(0.1)
        calls.close()
        waiting.join(60)
    assert failed == [Code.CANCELLED]


@pytest.mark.parametrize("limit", [900, 2**20])
def test_messages_have_a_limit(limit):
    texts = ["x" * 18] * 50
    with serve(shout) as (server, service):
        calls = calls_to(server, max_message_bytes=limit)
        if limit > 2000:
            assert len(asked(calls, *texts)["score"]) == 50
            return
        with pytest.raises(ServerError, match="batch_size, or allow more with max_me"):
            asked(calls, *texts)
    assert service.requests == []  # it was never sent, nor sent again


def test_an_answer_over_the_limit_is_not_asked_for_again():
    def verbose(request):
        return {"translation": np.array([b"x" * 5_000], object)}

    with serve(verbose) as (server, service):
        with pytest.raises(ServerError, match="or allow more with max_message_bytes"):
            asked(calls_to(server, max_message_bytes=900), "a")
    assert len(service.requests) == 1


def test_an_answer_of_another_kind_is_named():
    with serve(lambda request: {"score": np.array([1.0])}) as (server, _):
        with pytest.raises(ServerError, match="cannot be read: a tensor of dtype DT_D"):
            asked(calls_to(server), "a")


@pytest.mark.parametrize(
    "server",
    [
        *("", "localhost", "http://localhost:8500", "localhost:", "a:b", "a:1/x"),
        *("localhost:0", "localhost:65536", "localhost:70000"),
    ],
)
def test_what_is_no_address_is_refused(server):
    with pytest.raises(UserError, match="A server is host:port, as in localhost:8500"):
        calls_to(server)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_no_time_at_all_is_refused(seconds):
    with pytest.raises(UserError, match="timeout_seconds must be positive"):
        calls_to("localhost:1", timeout_seconds=seconds)


def test_a_version_has_a_number_or_a_label():
    with pytest.raises(UserError, match="model_version=3, version_label='stable'"):
        ModelSpec("m", 3, "stable")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Returns the key and the certificate of a server, made for this run."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    name = "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(
        f"{command} -keyout key -out certificate -days 2 {name}".split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return (folder / "key").read_bytes(), (folder / "certificate").read_bytes()


def test_over_tls_the_server_must_be_the_one_trusted(certificate):
    secret = grpc.ssl_server_credentials([certificate])
    with serve(shout, secret) as (server, _):
        trusting = grpc.ssl_channel_credentials(certificate[1])
        found = asked(calls_to(server, credentials=trusting), "a")
        assert found["translation"] == [b"A"]
        for credentials in (grpc.ssl_channel_credentials(), None):
            with pytest.raises(ServerError) as raised:
                asked(calls_to(server, credentials=credentials), "a")
            assert raised.value.code is Code.UNAVAILABLE
