"""Refusals of the API, in LibreTranslate's words."""

import grpc

from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.http.requests import HttpError

# Seconds after which a client may try again when the server had no time for it.
BUSY_SECONDS = 1


class Cancelled(Exception):  # noqa: N818 - not an error
    """End of work whose client has left."""


def missing(name: str) -> HttpError:
    """Returns the error of a request without a parameter."""
    return HttpError(400, f"Invalid request: missing {name} parameter")


def invalid(name: str, expected: str) -> HttpError:
    """Returns the error of a parameter of another kind."""
    return HttpError(400, f"Invalid request: {name} parameter is not {expected}")


def busy() -> HttpError:
    """Returns the error of a server with too many requests at a time."""
    text = "The server has too many requests at the moment. Try again."
    return HttpError(503, text, BUSY_SECONDS)


def backend_error(error: ServerError) -> HttpError:
    """Returns what a client is told about an error of the server of the models.

    The texts do not repeat the server's: those name machines, ports and flags.
    """
    codes = grpc.StatusCode
    if error.code is codes.DEADLINE_EXCEEDED:
        text = "The translation took too long. Send a shorter text, or try again."
        return HttpError(504, text)
    if error.code is codes.RESOURCE_EXHAUSTED:
        text = "Slowdown: the server of the models has too many requests. Try again."
        return HttpError(429, text, BUSY_SECONDS)
    if error.code in (codes.UNAVAILABLE, codes.CANCELLED):
        text = "The server of the models is not reachable or overloaded. Try again."
        return HttpError(503, text, BUSY_SECONDS)
    if error.code in (codes.NOT_FOUND, codes.FAILED_PRECONDITION):
        text = "The model of these languages is not loaded, or is of another kind."
        return HttpError(503, text)
    return HttpError(500, "Cannot translate text: the server of the models failed.")
