"""Compression that requests and answers over HTTP name in their heads."""

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send


def list_encodings(headers: Headers) -> list[str]:
    """Returns the encodings of a body, in the order in which they were applied."""
    return [
        name
        for name in _elements(headers.getlist("content-encoding"))
        if name != "identity"
    ]


class AcceptedEncodings:
    """ASGI middleware that hides encodings which the client refuses.

    What compresses answers looks for the name of an encoding alone, and would find it
    in "gzip;q=0".
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        if scope["type"] == "http" and "accept-encoding" in Headers(scope=scope):
            scope = {**scope, "headers": list(scope["headers"])}
            headers = MutableHeaders(scope=scope)
            elements = _elements(headers.getlist("accept-encoding"))
            del headers["accept-encoding"]
            headers["accept-encoding"] = ", ".join(
                name
                for name, *parameters in (each.split(";") for each in elements)
                if not any(_is_refusal(parameter) for parameter in parameters)
            )
        await self._app(scope, receive, send)


def _elements(values: Iterable[str]) -> list[str]:
    elements = ",".join(values).lower().split(",")
    return [element.strip() for element in elements if element.strip()]


def _is_refusal(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    try:
        return name.strip() == "q" and float(value) <= 0
    except ValueError:
        return False
