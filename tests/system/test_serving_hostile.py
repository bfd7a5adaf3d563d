"""A server under fire: whatever is sent, it answers, lives, and harms nobody else."""

import collections
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from benchmarks.server_process import BATCHING, started_server
from benchmarks.serving_load import expected_answers
from t2t_keras.serving.client import TranslationClient
from t2t_keras.serving.rpc.protos import PredictionServiceStub
from t2t_keras.serving.rpc.retries import RetryPolicy
from tests.system.hostile_requests import PROPER, hostile_requests

# It waits for a trained model and a process.
pytestmark = pytest.mark.slow

COUNT = 10_000


@pytest.fixture(scope="module")
def server(reverse_run):
    batching = BATCHING.replace("2000", "5000")
    with started_server(reverse_run.model_dir.export, batching=batching) as started:
        yield started


def test_ten_thousand_hostile_requests_harm_nobody(server, reverse_run):
    """Good texts are sent all the while, and joined with whatever can be joined."""
    seed = random.SystemRandom().randrange(2**31)
    print(f"hostile requests: seed {seed}")
    texts = [source.encode() for source, _ in reverse_run.held_out[:50]]
    expected = expected_answers(server.address, texts)
    over, harmed, unharmed = threading.Event(), [], collections.Counter()

    def ask_as_one_should(name):
        with TranslationClient(server.address, retry=RetryPolicy(0)) as client:
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
        grpc.insecure_channel(server.address, options) as channel,
    ):
        stub = PredictionServiceStub(channel)

        def send(request):
            try:
                stub.Predict(request, timeout=120)
            except grpc.RpcError as error:
                return error.code(), error.details(), request
            return grpc.StatusCode.OK, "", None

        good = [others.submit(ask_as_one_should, name) for name in range(2)]
        try:
            ended = list(fire.map(send, hostile_requests(COUNT, seed)))
        finally:
            over.set()
        for each in good:
            each.result()
    codes = collections.Counter(code.name for code, _, _ in ended)
    improper = [
        (code.name, details, str(request)[:500])
        for code, details, request in ended
        if code not in PROPER
    ]
    assert improper == []
    assert len(ended) == COUNT
    assert harmed == []
    assert min(unharmed.values()) >= len(texts)
    # Of each kind enough that the generator is not at fault.
    assert codes["OK"] > COUNT / 4 and codes["INVALID_ARGUMENT"] > COUNT / 20
    assert codes["NOT_FOUND"] > COUNT / 200
    assert expected_answers(server.address, texts) == expected
