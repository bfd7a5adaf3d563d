"""Errors of calls: which may succeed later, and what each means and advises."""

import grpc

from t2t_keras.errors import UserError


class ServerError(UserError):
    """Error of a call: no answer, a refusal, or an answer that cannot be used.

    Attributes:
        code: Status of gRPC; None if an answer came that cannot be used.
    """

    def __init__(self, message: str, code: grpc.StatusCode | None = None):
        super().__init__(message)
        self.code = code


def is_retriable(error: grpc.RpcError) -> bool:
    """Returns whether the same call may succeed later.

    A server that is starting or busy answers later; one that was given a wrong name
    never does. A call whose deadline has passed is not repeated: its caller no longer
    waits, and a server that is too slow would get the work twice.
    """
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        # Too many calls at a time; or a message too large, which stays too large.
        return not is_size_error(error)
    # A server that is flooded cancels calls before it reads them.
    return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def is_size_error(error: grpc.RpcError) -> bool:
    """Returns whether gRPC refused a message as too large."""
    return "larger than max" in (error.details() or "")


def wants_all_inputs(error: BaseException | None) -> bool:
    """Returns whether a server joins requests, and so fills in no defaults."""
    return (
        isinstance(error, grpc.RpcError)
        and error.code() is grpc.StatusCode.INVALID_ARGUMENT
        and "at least one dimension" in (error.details() or "")
    )


def explain_error(
    error: grpc.RpcError, *, server: str, model: str, signature: str, tried: str
) -> ServerError:
    """Returns the error of a failed call, with advice.

    Args:
        error: Error of grpc.
        server: host:port.
        model: Model that was asked for, with its version, in words.
        signature: Name of the signature.
        tried: Number of tries and the limits, in words.
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
    if code is grpc.StatusCode.UNAVAILABLE and (
        "Socket closed" in details or "handshake" in details
    ):
        message += (
            " If it has TLS, give ssl_ca_file, and ssl_cert_file and ssl_key_file too "
            "if it verifies its clients."
        )
    if wants_all_inputs(error):
        message += (
            ". It joins requests, and then fills in no defaults: give beam_size with "
            "alpha or max_length."
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and is_size_error(error):
        message = (
            f"A message to or from {said}. Send fewer texts at a time with batch_size, "
            "or allow more with max_message_bytes."
        )
    return ServerError(message, code)
