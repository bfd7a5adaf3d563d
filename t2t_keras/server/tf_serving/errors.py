"""Status codes and messages of requests that the server cannot answer."""

import logging
import re

import grpc
import tensorflow as tf

from t2t_keras.server.workers import WorkersBusyError, WorkersClosedError

logger = logging.getLogger(__name__)

# Limit of TensorFlow Serving: HTTP/2 headers carry the message.
LONGEST_MESSAGE = 1024
_CUT = "...TRUNCATED"
# A year: gRPC has no deadline at all as one that is centuries away.
_FOREVER_SECONDS = 3.2e7


class ServingError(Exception):
    """A status other than OK, with the words of TensorFlow Serving.

    Args:
        code: One of gRPC's status codes.
        message: For the client.
    """

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


def invalid_argument(message: str) -> ServingError:
    """Returns the error of a request that no state of the server could answer."""
    return ServingError(grpc.StatusCode.INVALID_ARGUMENT, message)


def not_found(message: str) -> ServingError:
    """Returns the error of a request for something that does not exist."""
    return ServingError(grpc.StatusCode.NOT_FOUND, message)


def failed_precondition(message: str) -> ServingError:
    """Returns the error of a request that would be right in another state."""
    return ServingError(grpc.StatusCode.FAILED_PRECONDITION, message)


def aborted(message: str) -> ServingError:
    """Returns the error of a request that another one has overtaken."""
    return ServingError(grpc.StatusCode.ABORTED, message)


def unimplemented(message: str) -> ServingError:
    """Returns the error of a request for what this server does not do."""
    return ServingError(grpc.StatusCode.UNIMPLEMENTED, message)


def deadline_exceeded() -> ServingError:
    """Returns the error of a request whose time is over."""
    return ServingError(
        grpc.StatusCode.DEADLINE_EXCEEDED, "The deadline of the request has passed."
    )


def cancelled() -> ServingError:
    """Returns the error of a request that nobody waits for any more."""
    return ServingError(grpc.StatusCode.CANCELLED, "The request was canceled.")


def xla_disabled() -> ServingError:
    """Returns the error of a request that only a server with XLA can answer."""
    return ServingError(
        grpc.StatusCode.INTERNAL,
        "XLA compilation disabled. Part of this signature is compiled by XLA: start "
        "the server with --xla_cpu_compilation_enabled, or "
        "--xla_gpu_compilation_enabled for a GPU, or export without --xla.",
    )


def _without_int8(message: str) -> str:
    """Returns the message of an error of TensorFlow, with advice if products failed."""
    if not re.search(r"Missing 0-th output .*QuantizedMatMul", message):
        return message
    return (
        "TensorFlow has no products of int8 in this process, which an export with "
        "--precision=int8 needs. They are oneDNN's: start the server on an x86 CPU "
        "with VNNI, or with TF_ENABLE_ONEDNN_OPTS=1 in the environment, or export "
        f"with another precision. TensorFlow: {message}"
    )


def from_exception(error: Exception) -> ServingError:
    """Returns the status of an exception; TensorFlow's codes are gRPC's."""
    if isinstance(error, ServingError):
        return error
    if isinstance(error, WorkersBusyError):
        return ServingError(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            f"The server is working on {error.limit} requests, the maximum at a time "
            "(--grpc_max_threads). Try again later.",
        )
    if isinstance(error, WorkersClosedError):
        return ServingError(grpc.StatusCode.UNAVAILABLE, "The server is shutting down.")
    if isinstance(error, tf.errors.OpError):
        # Functions that are not inlined put their names before the message.
        message = re.sub(r"^(\{\{function_node \S+\}\} )+", "", error.message)
        return ServingError(code_of(error.error_code), _without_int8(message))
    return ServingError(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")


def code_of(number: int) -> grpc.StatusCode:
    """Returns the status code of a number, UNKNOWN if there is none."""
    codes = (code for code in grpc.StatusCode if code.value[0] == number)
    return next(codes, grpc.StatusCode.UNKNOWN)


def seconds_left(context: grpc.aio.ServicerContext) -> float | None:
    """Returns the seconds until a request's deadline; `None` without one."""
    left = context.time_remaining()
    return None if left is None or left > _FOREVER_SECONDS else left


def shorten(message: str) -> str:
    """Returns a message that fits a header, cut to 1,024 bytes and marked if longer.

    >>> shorten("x" * 1025) == "x" * 1024 + "...TRUNCATED"
    True
    """
    encoded = message.encode()
    if len(encoded) <= LONGEST_MESSAGE:
        return message
    return encoded[:LONGEST_MESSAGE].decode(errors="ignore") + _CUT


def report_exception(error: Exception) -> ServingError:
    """Returns the status of an exception; logs the traceback of a fault.

    A fault of this server cannot be mended by the client, but by a reader.
    """
    expected = (
        ServingError,
        WorkersBusyError,
        WorkersClosedError,
        tf.errors.OpError,
    )
    if not isinstance(error, expected):
        logger.error("a request failed", exc_info=error)
    return from_exception(error)
