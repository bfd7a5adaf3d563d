"""Page to translate by hand: one document that asks no other host for anything."""

import base64
import hashlib
from collections.abc import Awaitable, Callable

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response


def page_response() -> Callable[[Request], Awaitable[Response]]:
    """Returns the endpoint of the page.

    The content security policy allows its own script and style, by their hashes, and
    requests to this server alone.
    """
    environment = Environment(
        loader=PackageLoader("t2t_keras.server.translation_api"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    script, style = (
        environment.get_template(name).render() for name in ("page.js", "page.css")
    )
    page = environment.get_template("page.html.j2").render(script=script, style=style)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; "
        f"style-src '{_hash(style)}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    response = HTMLResponse(page, headers=headers)

    async def answer(_: Request) -> Response:
        return response

    return answer


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
