"""Errors of the API: a status and a text for the client."""

import grpc

from t2t_keras.serving.client.errors import ServerError

# Seconds after which a client may try again when the server had no time for it.
BUSY_SECONDS = 1


class ApiError(Exception):
    """Refusal of a request, or failure of its work.

    Attributes:
        status: Status of HTTP.
        message: Text for the client, without names of files or machines.
        retry_after: Seconds for the header Retry-After; None for no header.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None):
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


class Cancelled(Exception):  # noqa: N818 - not an error
    """End of work whose client has left."""


def missing(name: str) -> ApiError:
    """Returns the error of a request without a parameter."""
    return ApiError(400, f"Invalid request: missing {name} parameter")


def invalid(name: str, expected: str) -> ApiError:
    """Returns the error of a parameter of another kind."""
    return ApiError(400, f"Invalid request: {name} parameter is not {expected}")


def busy() -> ApiError:
    """Returns the error of a server with too many requests at a time."""
    text = "The server has too many requests at the moment. Try again."
    return ApiError(503, text, BUSY_SECONDS)


def backend_error(error: ServerError) -> ApiError:
    """Returns what a client is told about an error of the server of the models.

    The texts do not repeat the server's: those name machines, ports and flags.
    """
    codes = grpc.StatusCode
    if error.code is codes.DEADLINE_EXCEEDED:
        text = "The translation took too long. Send a shorter text, or try again."
        return ApiError(504, text)
    if error.code is codes.RESOURCE_EXHAUSTED:
        text = "Slowdown: the server of the models has too many requests. Try again."
        return ApiError(429, text, BUSY_SECONDS)
    if error.code in (codes.UNAVAILABLE, codes.CANCELLED):
        text = "The server of the models is not reachable or overloaded. Try again."
        return ApiError(503, text, BUSY_SECONDS)
    if error.code in (codes.NOT_FOUND, codes.FAILED_PRECONDITION):
        text = "The model of these languages is not loaded, or is of another kind."
        return ApiError(503, text)
    return ApiError(500, "Cannot translate text: the server of the models failed.")
