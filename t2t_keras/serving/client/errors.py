"""Errors of a client: what the server's status means, and what to do about it."""

import grpc

from t2t_keras.errors import UserError
from t2t_keras.serving.client.retries import is_about_size


class ServerError(UserError):
    """A server gave no answer, refused to, or gave one that is none.

    Attributes:
        code: The status, as grpc has it; None if an answer came and is broken.
    """

    def __init__(self, message: str, code: grpc.StatusCode | None = None):
        super().__init__(message)
        self.code = code


def explained(
    error: grpc.RpcError, *, server: str, model: str, signature: str, tried: str
) -> ServerError:
    """Returns a failed call as an error that says what to do.

    Args:
        error: What grpc raised.
        server: host:port.
        model: The model that was asked for, with its version, for a person.
        signature: The one that was called.
        tried: How often and with which limits, for a person.
    """
    code, details = error.code(), error.details() or "no details"
    said = f"{server}: {details}"
    messages = {
        grpc.StatusCode.UNAVAILABLE: f"No answer from {said} ({tried}). Is the server "
        "running, is this its port for gRPC (8500, where that for REST is 8501), and "
        "has it time for more requests?",
        grpc.StatusCode.DEADLINE_EXCEEDED: f"No answer from {server} in time "
        f"({tried}). Allow more with timeout_seconds, ask for less at a time with "
        "batch_size, or for less at once with concurrency.",
        grpc.StatusCode.NOT_FOUND: f"No {model} on {said}. Give the name and version "
        "that the server was started with: model_name, model_version, version_label.",
        grpc.StatusCode.FAILED_PRECONDITION: f"{model} on {server} cannot be asked for "
        f"{signature!r}: {details}. If it has no such signature, export it again with "
        "python -m t2t_keras.export.",
        grpc.StatusCode.INVALID_ARGUMENT: f"The request for {signature!r} was refused "
        f"by {said}",
        grpc.StatusCode.UNIMPLEMENTED: f"{server} speaks gRPC, and not as TensorFlow "
        f"Serving does: {details}. Is it the right port?",
        grpc.StatusCode.RESOURCE_EXHAUSTED: f"Too many requests at a time for {said} "
        f"({tried}). Ask for less at once with concurrency, or allow more retries.",
    }
    message = messages.get(code, f"{code.name} from {said}")
    if code is grpc.StatusCode.INVALID_ARGUMENT and "at least one dimension" in details:
        message += (
            ". It joins requests, and then fills in no defaults: give beam_size with "
            "alpha or max_length."
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and is_about_size(error):
        message = (
            f"A message to or from {said}. Send fewer texts at a time with batch_size, "
            "or allow more with max_message_bytes."
        )
    return ServerError(message, code)
