"""Fake gRPC server in this process, whose answers come from a function of the test."""

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
    """Error that an answering function raises to return a status."""

    def __init__(self, code: grpc.StatusCode, details: str = "as the test wants it"):
        super().__init__(details)
        self.code = code


class FakeService(PredictionServiceServicer):
    """PredictionService that calls a function of the test and keeps the requests.

    Attributes:
        requests: Requests in order of arrival.
        max_concurrent: Maximum number of requests answered at the same time.
    """

    def __init__(self, answer: Answer):
        self.requests: list[predict_pb2.PredictRequest] = []
        self.max_concurrent = 0
        self._concurrent = 0
        self._lock = threading.Lock()
        self._answer = answer

    def Predict(self, request, context):  # noqa: N802 - gRPC's name
        with self._lock:
            self.requests.append(request)
            self._concurrent += 1
            self.max_concurrent = max(self.max_concurrent, self._concurrent)
        try:
            outputs = self._answer(request)
        except RefusalError as refusal:
            context.abort(refusal.code, str(refusal))
        finally:
            with self._lock:
                self._concurrent -= 1
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
    """Yields the address of a server and its service, which keeps the requests."""
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
    """Returns the texts of a request, converted by TensorFlow."""
    return tf.make_ndarray(request.inputs[name]).tolist()


def shout(request: predict_pb2.PredictRequest) -> Mapping[str, Any]:
    """Translates to upper case and scores by length; cuts texts above 20 bytes."""
    texts = read_texts(request)
    return {
        "translation": np.array([text[:20].upper() for text in texts], object),
        "score": np.array([-len(text) / 8 for text in texts], np.float32),
        "truncated": np.array([len(text) > 20 for text in texts], bool),
    }


def answer_nbest(request: predict_pb2.PredictRequest) -> Mapping[str, Any]:
    """Returns three slots per text; it has a translation for each byte, at most 3."""
    texts = read_texts(request)
    lengths = [[2 if i < len(text) else 0 for i in range(3)] for text in texts]
    translations = [
        [text.upper() + str(i).encode() if i < len(text) else b"" for i in range(3)]
        for text in texts
    ]
    scores = [
        [-0.5 - i if i < len(text) else -np.inf for i in range(3)] for text in texts
    ]
    return {
        "translations": np.array(translations, object),
        "scores": np.array(scores, np.float32),
        "lengths": np.array(lengths, np.int32),
        "truncated": np.array([len(text) > 2 for text in texts], bool),
    }
