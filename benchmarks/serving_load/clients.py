"""Clients that send one text after another over a connection, without retries."""

import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Protocol

import grpc
from google.protobuf.message import Message

from t2t_keras.serving import signature
from t2t_keras.serving.client.calls import predict_method
from t2t_keras.serving.client.tensors import (
    PredictRequest,
    nested_values,
    string_tensor,
)
from t2t_keras.serving.client.translation_client import TranslatedText

# A server that has not answered by then hangs.
_TIMEOUT_SECONDS = 300


class RefusedError(Exception):
    """A request without an answer.

    Args:
        status: Name of a status of gRPC, "HTTP" with a status code, or "BROKEN" for a
            connection that has ended.
    """

    def __init__(self, status: str):
        super().__init__(status)
        self.status = status


class Client(Protocol):
    """A connection to a server."""

    def translate(self, text: bytes) -> TranslatedText:
        """Returns the translation of a text; its score is 0 if the protocol has none.

        Raises:
            RefusedError: If there is none.
        """
        ...


class Connect(Protocol):
    """Opens a connection to a server."""

    def __call__(self, address: str) -> AbstractContextManager[Client]:
        """Returns a context manager that yields a client of host:port."""
        ...


class _Grpc:
    def __init__(self, channel: grpc.Channel):
        self._predict = predict_method(channel)

    def translate(self, text: bytes) -> TranslatedText:
        try:
            answer = self._predict(make_request(text), timeout=_TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            raise RefusedError(error.code().name) from error
        return read_answer(answer)


def make_request(text: bytes) -> Message:
    """Returns the `PredictRequest` to translate a text."""
    request = PredictRequest()
    request.model_spec.name = "translate"
    request.inputs[signature.TEXT].CopyFrom(string_tensor([text]))
    return request


def read_answer(response: Any) -> TranslatedText:
    """Returns the translation in a `PredictResponse`."""
    (translation,) = nested_values(response.outputs[signature.TRANSLATION])
    (score,) = nested_values(response.outputs[signature.SCORE])
    return TranslatedText(translation.decode(), score)


@contextlib.contextmanager
def connect_grpc(address: str) -> Iterator[Client]:
    """Yields a client of TensorFlow Serving's gRPC."""
    # Otherwise the channels of a process share a connection.
    own = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_reconnect_backoff_ms", 1_000),
    ]
    with grpc.insecure_channel(address, own) as channel:
        yield _Grpc(channel)


class _Http:
    """Client of a server that answers JSON; the connection is kept."""

    def __init__(self, address: str):
        self._connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_SECONDS)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Returns the answer to a request."""
        headers = {"Content-Type": "application/json"}
        try:
            self._connection.request("POST", path, json.dumps(body), headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise RefusedError("BROKEN") from error
        if response.status != http.HTTPStatus.OK:
            raise RefusedError(f"HTTP {response.status}")
        return json.loads(content)

    def close(self) -> None:
        self._connection.close()


class _Rest(_Http):
    def translate(self, text: bytes) -> TranslatedText:
        (row,) = self.post(
            "/v1/models/translate:predict", {"instances": [text.decode()]}
        )["predictions"]
        return TranslatedText(row["translation"], row["score"])


class _TranslationApi(_Http):
    def translate(self, text: bytes) -> TranslatedText:
        body = {"q": text.decode(), "source": "en", "target": "de"}
        return TranslatedText(self.post("/translate", body)["translatedText"], 0.0)


@contextlib.contextmanager
def connect_rest(address: str) -> Iterator[Client]:
    """Yields a client of TensorFlow Serving's REST API."""
    with contextlib.closing(_Rest(address)) as client:
        yield client


@contextlib.contextmanager
def connect_translation_api(address: str) -> Iterator[Client]:
    """Yields a client of the translation API of one model, from "en" to "de"."""
    with contextlib.closing(_TranslationApi(address)) as client:
        yield client


PROTOCOLS: Mapping[str, Connect] = MappingProxyType(
    {
        "gRPC": connect_grpc,
        "REST": connect_rest,
        "translation API": connect_translation_api,
    }
)
