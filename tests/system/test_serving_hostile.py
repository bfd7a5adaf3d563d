"""A server under fire: whatever is sent, it answers, lives, and harms nobody else."""

import collections
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from benchmarks.server_process import BATCHING, started_server
from benchmarks.serving_load import expected_answers
from t2t_keras.serving.client.protos import PredictionServiceStub
from t2t_keras.serving.client.retries import RetryPolicy
from t2t_keras.serving.client.translation_client import TranslationClient
from tests.system.hostile_requests import hostile_requests

JOINING = BATCHING.replace("2000", "5000")


@pytest.mark.slow
def test_hundreds_of_hostile_requests_harm_nobody(reverse_run):
    send_while_others_ask(reverse_run, JOINING, 200)


@pytest.mark.release
@pytest.mark.parametrize(
    ("batching", "count"), [(JOINING, 9_000), ("", 1_000)], ids=["batches", "alone"]
)
def test_ten_thousand_hostile_requests_harm_nobody(reverse_run, batching, count):
    send_while_others_ask(reverse_run, batching, count)


def send_while_others_ask(reverse_run, batching, count):
    """Good texts are sent all the while, and joined with whatever can be joined."""
    base = reverse_run.model_dir.export
    with started_server(base, batching=batching) as server:
        texts = [source.encode() for source, _ in reverse_run.held_out[:50]]
        _fire(server.address, texts, count)


def _fire(address, texts, count):
    seed = random.SystemRandom().randrange(2**31)
    print(f"hostile requests: seed {seed}")
    expected = expected_answers(address, texts)
    over, harmed, unharmed = threading.Event(), [], collections.Counter()

    def ask_as_one_should(name):
        with TranslationClient(address, retry=RetryPolicy(0)) as client:
            while not over.is_set():
                for text in texts:
                    (found,) = client.translate([text])
                    if found.text != expected[text].text:
                        harmed.append((text, found))
                    elif abs(found.score - expected[text].score) > 1e-5:
                        harmed.append((text, found))
                    unharmed[name] += 1

    options = [("grpc.max_send_message_length", -1)]
    with (
        ThreadPoolExecutor(16) as fire,
        ThreadPoolExecutor(2) as others,
        grpc.insecure_channel(address, options) as channel,
    ):
        stub = PredictionServiceStub(channel)

        def send(hostile):
            """Returns the status, and what is wrong with the answer if anything is."""
            try:
                found = stub.Predict(hostile.request, timeout=120).outputs.values()
            except grpc.RpcError as error:
                code, said = error.code(), error.details()
                right = code in hostile.proper
            else:
                code, said = grpc.StatusCode.OK, {first_size(each) for each in found}
                right = code in hostile.proper and (
                    hostile.rows is None or said == {hostile.rows}
                )
            return code.name, "" if right else f"{code}, {said}: {str(hostile)[:500]}"

        good = [others.submit(ask_as_one_should, name) for name in range(2)]
        try:
            ended = list(fire.map(send, hostile_requests(count, seed)))
        finally:
            over.set()
        for each in good:
            each.result()
    codes = collections.Counter(code for code, _ in ended)
    assert [wrong for _, wrong in ended if wrong] == []
    assert len(ended) == count
    assert harmed == []
    assert min(unharmed.values()) >= len(texts)
    # Of each kind enough that the generator is not at fault.
    assert codes["OK"] > count / 2 and codes["INVALID_ARGUMENT"] > count / 20
    assert codes["NOT_FOUND"] > count / 200
    assert expected_answers(address, texts) == expected


def first_size(tensor):
    return tensor.tensor_shape.dim[0].size
