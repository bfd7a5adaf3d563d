"""Calls of a server: retries, deadlines, message limits, refused settings."""

import threading
import time

import grpc
import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.client.calls import ModelSpec, PredictionCalls, RetryPolicy
from t2t_keras.serving.client.errors import ServerError
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


def call(calls, *texts):
    """Returns the answer to a call, and closes the client after it."""
    try:
        return calls.predict("serving_default", {"text": string_tensor(texts)})
    finally:
        calls.close()


def fail_with(*codes):
    """Returns an answering function that first fails with these codes."""
    remaining = list(codes)

    def answer(request):
        if remaining:
            raise RefusalError(remaining.pop(0))
        return shout(request)

    return answer


def test_an_answer_has_lists_by_name():
    with serve(shout) as (server, service):
        found = call(calls_to(server), "ab", "c" * 24)
    assert found == {
        "translation": [b"AB", b"C" * 20],
        "score": [-0.25, -3.0],
        "truncated": [False, True],
    }
    (request,) = service.requests
    assert read_texts(request) == [b"ab", b"c" * 24]
    assert request.model_spec.name == "translate"
    assert request.model_spec.signature_name == "serving_default"
    # Without a version, the server uses the newest one.
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
def test_a_request_names_the_model(model, choice, text):
    with serve(shout) as (server, service):
        call(calls_to(server, model), "a")
    (request,) = service.requests
    spec = request.model_spec
    assert (spec.name, spec.WhichOneof("version_choice")) == (model.name, choice)
    assert spec.version.value == (model.version or 0)
    assert spec.version_label == model.label
    assert str(model).startswith(text)


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED])
def test_a_busy_server_is_retried(code):
    with serve(fail_with(code, code)) as (server, service):
        assert call(calls_to(server), "a")["translation"] == [b"A"]
    assert len(service.requests) == 3


def test_retries_are_limited():
    with serve(fail_with(*[Code.UNAVAILABLE] * 9)) as (server, service):
        with pytest.raises(ServerError, match="tries: 4") as raised:
            call(calls_to(server), "a")
    assert raised.value.code is Code.UNAVAILABLE
    assert len(service.requests) == 4


@pytest.mark.parametrize("code", [Code.INVALID_ARGUMENT, Code.INTERNAL])
def test_permanent_errors_are_not_retried(code):
    with serve(fail_with(code)) as (server, service):
        with pytest.raises(ServerError, match="as the test wants it") as raised:
            call(calls_to(server), "a")
    assert raised.value.code is code
    assert len(service.requests) == 1


def test_a_slow_server_exceeds_the_deadline():
    ended = threading.Event()

    def sleep(request):
        ended.wait(60)
        return shout(request)

    with serve(sleep) as (server, service):
        started = time.monotonic()
        with pytest.raises(ServerError, match=r"timeout_seconds=1[)]") as raised:
            call(calls_to(server, timeout_seconds=1.0), "a")
        waited = time.monotonic() - started
        ended.set()
    assert raised.value.code is Code.DEADLINE_EXCEEDED
    assert len(service.requests) == 1
    assert 1.0 <= waited < 30  # the server would have taken 60


def test_retries_end_at_the_deadline():
    patient = RetryPolicy(10**9, first_wait_seconds=0.02, longest_wait_seconds=0.02)
    with serve(fail_with(*[Code.UNAVAILABLE] * 10**5)) as (server, service):
        started = time.monotonic()
        with pytest.raises(ServerError) as raised:
            call(calls_to(server, timeout_seconds=0.5, retry=patient), "a")
        assert 0.4 < time.monotonic() - started < 30
    assert raised.value.code in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)
    assert len(service.requests) > 5


def test_a_server_that_starts_later_is_found():
    """By default, a channel would reconnect only after seconds."""
    with serve(shout) as (server, _):
        pass
    many = RetryPolicy(200, first_wait_seconds=0.1, longest_wait_seconds=0.1)
    calls = calls_to(server, retry=many)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(call(calls, "a")))
    waiting.start()
    time.sleep(0.3)
    assert answers == []
    with serve(shout, address=server):
        waiting.join(60)
    assert answers[0]["translation"] == [b"A"]


def test_closing_ends_a_call_that_waits_for_a_retry():
    with serve(fail_with(*[Code.UNAVAILABLE] * 99)) as (server, service):
        slow = RetryPolicy(99, first_wait_seconds=1e6, longest_wait_seconds=1e6)
        calls = calls_to(server, retry=slow, timeout_seconds=1e9)
        failed = []

        def wait():
            try:
                call(calls, "a")
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
            assert len(call(calls, *texts)["score"]) == 50
            return
        with pytest.raises(ServerError, match="batch_size, or allow more with max_me"):
            call(calls, *texts)
    assert service.requests == []  # it was never sent


def test_an_answer_over_the_limit_is_not_retried():
    def verbose(request):
        return {"translation": np.array([b"x" * 5_000], object)}

    with serve(verbose) as (server, service):
        with pytest.raises(ServerError, match="or allow more with max_message_bytes"):
            call(calls_to(server, max_message_bytes=900), "a")
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "server", ["", "localhost", "http://localhost:8500", "a:1/x", "a:0", "a:65536"]
)
def test_a_bad_address_is_refused(server):
    with pytest.raises(UserError, match="A server is host:port, as in localhost:8500"):
        calls_to(server)


def test_a_socket_may_be_written_as_grpc_does(monkeypatch):
    monkeypatch.setenv("HOME", "/b")
    channel, opened = grpc.insecure_channel("unix:c"), []
    monkeypatch.setattr(
        grpc, "insecure_channel", lambda *a: opened.append(a) or channel
    )
    for server in ("unix:a", "unix:/a", "unix:///a", "unix:~/a"):
        calls_to(server)
    assert [server for server, _ in opened] == ["unix:a", *["unix:/a"] * 2, "unix:/b/a"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_bad_timeout_is_refused(seconds):
    with pytest.raises(UserError, match="timeout_seconds must be positive"):
        calls_to("localhost:1", timeout_seconds=seconds)


def test_a_version_has_a_number_or_a_label():
    with pytest.raises(UserError, match="model_version=3, version_label='stable'"):
        ModelSpec("m", 3, "stable")


def test_waits_double_up_to_the_longest():
    policy = RetryPolicy(first_wait_seconds=0.25, longest_wait_seconds=3.0)
    waits = [policy.wait_seconds(n, draw=lambda: 1.0) for n in (1, 2, 3, 4, 5, 6)]
    assert waits == [0.25, 0.5, 1.0, 2.0, 3.0, 3.0]
    assert policy.wait_seconds(5_000, draw=lambda: 1.0) == 3.0


def test_waits_have_full_jitter():
    """Without it, all clients of a server that was down would retry at once."""
    policy = RetryPolicy(first_wait_seconds=1.0)
    assert policy.wait_seconds(1, draw=lambda: 0.0) == 0.0
    drawn = [policy.wait_seconds(1) for _ in range(400)]
    assert 0 <= min(drawn) < 0.1 and 0.9 < max(drawn) < 1
