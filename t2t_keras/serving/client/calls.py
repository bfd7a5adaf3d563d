"""Calls to a server's PredictionService: a deadline, retries, errors that explain."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message

from t2t_keras.errors import UserError
from t2t_keras.serving.client.connection import open_channel
from t2t_keras.serving.client.errors import ServerError, explain_error, is_retriable
from t2t_keras.serving.client.tensors import (
    PredictRequest,
    PredictResponse,
    nested_values,
)


@dataclass(frozen=True)
class ModelSpec:
    """Name and version of a model on a server.

    Attributes:
        name: Name of the model in the server's configuration.
        version: Version number; None for the newest.
        label: Label of a version, such as "stable", instead; "" for none.

    Raises:
        UserError: If there are both a number and a label.
    """

    name: str = "translate"
    version: int | None = None
    label: str = ""

    def __post_init__(self):
        if self.version is not None and self.label:
            raise UserError(
                f"A version has a number or a label: model_version={self.version}, "
                f"version_label={self.label!r}. Give one of them."
            )

    def __str__(self) -> str:
        version = self.label if self.version is None else self.version
        return f"model {self.name!r}" + (
            f", version {version}" if version != "" else ""
        )


@dataclass(frozen=True)
class RetryPolicy:
    """Retries with exponential backoff and full jitter.

    A translation changes nothing on the server, so any call may be repeated. gRPC's own
    retries stop at five attempts, and at requests of 256 kB.

    Attributes:
        retries: Maximum number of times that a call is repeated; 0 for never.
        first_wait_seconds: Longest wait before the first repetition; it doubles
            with each.
        longest_wait_seconds: Where it stops doubling.

    Raises:
        UserError: If `retries` is negative.
    """

    retries: int = 6
    first_wait_seconds: float = 0.1
    longest_wait_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise UserError(f"--retries must be at least 0: {self.retries}")

    def wait_seconds(
        self, failures: int, draw: Callable[[], float] = random.random
    ) -> float:
        """Returns how long to wait after that many failures, 1 or more.

        A random time from 0 to the longest, so that clients that a server refused
        together do not return together.

        Args:
            failures: Failures of this call so far.
            draw: Function that returns a number in [0, 1).
        """
        # Bounded, or a float overflows after a thousand failures.
        doubled = self.first_wait_seconds * 2.0 ** min(failures - 1, 60)
        return draw() * min(doubled, self.longest_wait_seconds)


def predict_method(channel: grpc.Channel) -> grpc.UnaryUnaryMultiCallable:
    """Returns TensorFlow Serving's method Predict, of our messages."""
    return channel.unary_unary(
        "/tensorflow.serving.PredictionService/Predict",
        request_serializer=PredictRequest.SerializeToString,
        response_deserializer=PredictResponse.FromString,
    )


class PredictionCalls:
    """Connection to a server, which threads may share.

    Args:
        server: host:port of its gRPC service.
        model: Model of the server.
        timeout_seconds: Longest time of a call, its retries included.
        retry: Retries of a call that failed.
        credentials: Credentials for TLS; None for a connection without it.
        max_message_bytes: Largest size of a request and of an answer.

    Raises:
        UserError: If `server` is not a valid address, `timeout_seconds` is not
            positive, or `max_message_bytes` is negative.
    """

    def __init__(
        self,
        server: str,
        model: ModelSpec,
        *,
        timeout_seconds: float,
        retry: RetryPolicy,
        credentials: grpc.ChannelCredentials | None,
        max_message_bytes: int,
    ):
        if not timeout_seconds > 0:
            raise UserError(f"timeout_seconds must be positive: {timeout_seconds}")
        self._server = server
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._retry = retry
        self._closed = threading.Event()
        self._channel = open_channel(server, credentials, max_message_bytes)
        self._predict = predict_method(self._channel)

    def close(self) -> None:
        """Ends the connection, and every call that waits."""
        self._closed.set()
        self._channel.close()

    def predict(
        self,
        signature_name: str,
        inputs: Mapping[str, Message],
        outputs: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Returns the outputs of a signature: nested lists by name.

        Args:
            signature_name: Name of the signature.
            inputs: Its inputs by name.
            outputs: Outputs that the server sends. Default: all.

        Raises:
            ServerError: If there is no answer, or it cannot be read.
        """
        request = PredictRequest()
        request.model_spec.name = self._model.name
        request.model_spec.signature_name = signature_name
        if self._model.label:
            request.model_spec.version_label = self._model.label
        elif self._model.version is not None:
            request.model_spec.version.value = self._model.version
        request.output_filter.extend(outputs)
        for name, tensor in inputs.items():
            request.inputs[name].CopyFrom(tensor)
        answer = self._answer(request)
        try:
            return {
                name: nested_values(tensor) for name, tensor in answer.outputs.items()
            }
        except ValueError as error:
            raise ServerError(
                f"{self._server} gave an answer that cannot be read: {error}."
            ) from error

    def _answer(self, request: Any) -> Any:
        deadline = time.monotonic() + self._timeout_seconds
        for failures in itertools.count(1):
            if self._closed.is_set():
                raise ServerError("The client was closed.", grpc.StatusCode.CANCELLED)
            try:
                left = max(deadline - time.monotonic(), 0.001)
                return self._predict(request, timeout=left)
            except ValueError:
                # The channel was closed meanwhile, by another thread.
                if not self._closed.is_set():
                    raise
            except grpc.RpcError as error:
                wait = self._retry.wait_seconds(failures)
                if (
                    failures > self._retry.retries
                    or time.monotonic() + wait >= deadline
                    or not is_retriable(error)
                ):
                    raise explain_error(
                        error,
                        server=self._server,
                        model=str(self._model),
                        signature=request.model_spec.signature_name,
                        tried=f"tries: {failures}, "
                        f"timeout_seconds={self._timeout_seconds:g}",
                    ) from error
                self._closed.wait(wait)
        raise AssertionError  # the count does not end
