"""Robustness of the server against hostile requests, next to normal traffic."""

import collections
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

from benchmarks.server_process import BATCHING, started_server
from benchmarks.serving_load import expected_answers
from t2t_keras.serving.client.calls import RetryPolicy
from t2t_keras.serving.client.translation_client import TranslationClient
from tests.system.hostile_requests import hostile_requests

LONG_DELAY = BATCHING.replace("2000", "5000")


@pytest.mark.slow
def test_hundreds_of_hostile_requests_do_no_harm(reverse_run):
    check_hostile_requests(reverse_run, LONG_DELAY, 200)


@pytest.mark.release
@pytest.mark.parametrize(
    ("batching", "count"), [(LONG_DELAY, 9_000), ("", 1_000)], ids=["batches", "alone"]
)
def test_ten_thousand_hostile_requests_do_no_harm(reverse_run, batching, count):
    check_hostile_requests(reverse_run, batching, count)


def check_hostile_requests(reverse_run, batching, count):
    """Sends hostile and normal requests at the same time, in the same batches."""
    base = reverse_run.model_dir.export
    with started_server(base, batching=batching) as server:
        texts = [source.encode() for source, _ in reverse_run.held_out[:50]]
        _send_all(server.address, texts, count)


def _send_all(address, texts, count):
    seed = random.SystemRandom().randrange(2**31)
    print(f"hostile requests: seed {seed}")
    expected = expected_answers(address, texts)
    over, wrong_answers, num_answers = threading.Event(), [], collections.Counter()

    def send_normal_requests(name):
        with TranslationClient(address, retry=RetryPolicy(0)) as client:
            while not over.is_set():
                for text in texts:
                    (answer,) = client.translate([text])
                    if answer.text != expected[text].text:
                        wrong_answers.append((text, answer))
                    elif abs(answer.score - expected[text].score) > 1e-5:
                        wrong_answers.append((text, answer))
                    num_answers[name] += 1

    options = [("grpc.max_send_message_length", -1)]
    with (
        ThreadPoolExecutor(16) as hostile_clients,
        ThreadPoolExecutor(2) as normal_clients,
        grpc.insecure_channel(address, options) as channel,
    ):
        stub = PredictionServiceStub(channel)

        def send(hostile):
            """Returns the status, and a description of the fault or an empty text."""
            try:
                outputs = stub.Predict(hostile.request, timeout=120).outputs.values()
            except grpc.RpcError as error:
                code, facts = error.code(), error.details()
                right = code in hostile.proper
            else:
                code, facts = grpc.StatusCode.OK, {first_size(each) for each in outputs}
                right = code in hostile.proper and (
                    hostile.rows is None or facts == {hostile.rows}
                )
            return code.name, "" if right else f"{code}, {facts}: {str(hostile)[:500]}"

        normal = [
            normal_clients.submit(send_normal_requests, name) for name in range(2)
        ]
        try:
            ended = list(hostile_clients.map(send, hostile_requests(count, seed)))
        finally:
            over.set()
        for each in normal:
            each.result()
    codes = collections.Counter(code for code, _ in ended)
    assert [wrong for _, wrong in ended if wrong] == []
    assert len(ended) == count
    assert wrong_answers == []
    assert min(num_answers.values()) >= len(texts)
    # The generator made enough requests of each kind.
    assert codes["OK"] > count / 2 and codes["INVALID_ARGUMENT"] > count / 20
    assert codes["NOT_FOUND"] > count / 200
    assert expected_answers(address, texts) == expected


def first_size(tensor):
    return tensor.tensor_shape.dim[0].size
