"""A gRPC server in this process that answers as a test tells it to."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis.prediction_service_pb2_grpc import (
    PredictionServiceServicer,
    add_PredictionServiceServicer_to_server,
)

Answer = Callable[[predict_pb2.PredictRequest], Mapping[str, Any]]


class RefusalError(Exception):
    """What an answering function raises to give a status."""

    def __init__(self, code: grpc.StatusCode, details: str = "as the test wants it"):
        super().__init__(details)
        self.code = code


class FakeService(PredictionServiceServicer):
    """Calls a function of the test, and keeps what it was asked.

    Attributes:
        requests: In the order in which they came.
        max_concurrent: How many were being answered at once.
    """

    def __init__(self, answer: Answer):
        self.requests: list[predict_pb2.PredictRequest] = []
        self.max_concurrent = 0
        self._at_a_time = 0
        self._lock = threading.Lock()
        self._answer = answer

    def Predict(self, request, context):  # noqa: N802 - gRPC's name
        with self._lock:
            self.requests.append(request)
            self._at_a_time += 1
            self.max_concurrent = max(self.max_concurrent, self._at_a_time)
        try:
            outputs = self._answer(request)
        except RefusalError as refusal:
            context.abort(refusal.code, str(refusal))
        finally:
            with self._lock:
                self._at_a_time -= 1
        response = predict_pb2.PredictResponse()
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response


@contextlib.contextmanager
def serve(
    answer: Answer,
    credentials: grpc.ServerCredentials | None = None,
    address: str = "localhost:0",
) -> Iterator[tuple[str, FakeService]]:
    """Yields the address of a server, and what it was asked."""
    service = FakeService(answer)
    executor = ThreadPoolExecutor(16)
    options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)]
    server = grpc.server(executor, options=options)
    add_PredictionServiceServicer_to_server(service, server)
    if credentials:
        port = server.add_secure_port(address, credentials)
    else:
        port = server.add_insecure_port(address)
    server.start()
    try:
        yield f"localhost:{port}", service
    finally:
        server.stop(None).wait()
        executor.shutdown()


def read_texts(request: predict_pb2.PredictRequest, name: str = "text") -> list[bytes]:
    """Returns the texts that a request holds, by TensorFlow's own reader."""
    return tf.make_ndarray(request.inputs[name]).tolist()


def shout(request: predict_pb2.PredictRequest) -> Mapping[str, Any]:
    """Translates into capitals, scored by length; a text above 20 bytes is cut."""
    texts = read_texts(request)
    return {
        "translation": np.array([text[:20].upper() for text in texts], object),
        "score": np.array([-len(text) / 8 for text in texts], np.float32),
        "truncated": np.array([len(text) > 20 for text in texts], bool),
    }


def answer_nbest(request: predict_pb2.PredictRequest) -> Mapping[str, Any]:
    """Three slots: a text has as many translations as it has bytes, at most 3."""
    texts = read_texts(request)
    lengths = [[2 if i < len(text) else 0 for i in range(3)] for text in texts]
    found = [
        [text.upper() + str(i).encode() if i < len(text) else b"" for i in range(3)]
        for text in texts
    ]
    scores = [
        [-0.5 - i if i < len(text) else -np.inf for i in range(3)] for text in texts
    ]
    return {
        "translations": np.array(found, object),
        "scores": np.array(scores, np.float32),
        "lengths": np.array(lengths, np.int32),
        "truncated": np.array([len(text) > 2 for text in texts], bool),
    }
