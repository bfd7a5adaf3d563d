"""Fields of a request: from its URL, and from its body as JSON or as a form."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.requests import Request

from t2t_keras.server.http.requests import HttpError

# More than any request has. Each costs time.
_MAX_FIELDS = 1_000


async def read_fields(request: Request) -> Mapping[str, Any]:
    """Returns the fields of a request by name.

    A body of JSON has all of them. Otherwise they are those of the URL and of the form,
    and the first of a name counts, as in LibreTranslate.

    Raises:
        HttpError: If the body is malformed.
    """
    value, _ = parse_options_header(request.headers.get("content-type", ""))
    kind = value.decode("latin-1")
    if kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        return _parse_json(await request.body())
    items = list(request.query_params.multi_items())
    if kind == "application/x-www-form-urlencoded":
        items += _parse_form(await request.body())
    elif kind == "multipart/form-data":
        items += await _parse_multipart(request)
    # Lines of a form end in CR and LF.
    return {
        name: _valid_unicode(value).replace("\r\n", "\n")
        for name, value in reversed(items)
    }


def _parse_json(body: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, "Invalid JSON format") from error
    if not isinstance(fields, dict):
        raise HttpError(400, "Invalid JSON format")
    return {name: _valid_text(value) for name, value in fields.items()}


def _valid_text(value: Any) -> Any:
    """Returns texts, and texts in lists and objects, without halves of surrogates."""
    if isinstance(value, list):
        return [_valid_string(each) for each in value]
    if isinstance(value, dict):
        return {_valid_unicode(key): _valid_string(each) for key, each in value.items()}
    return _valid_string(value)


def _valid_string(value: Any) -> Any:
    return _valid_unicode(value) if isinstance(value, str) else value


def _valid_unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _parse_form(body: bytes) -> list[tuple[str, str]]:
    # Not by Starlette, which decodes bytes that are not percent-encoded as Latin-1.
    # `curl -d` sends UTF-8.
    try:
        return parse_qsl(
            body.decode(errors="replace"),
            keep_blank_values=True,
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError as error:
        raise HttpError(400, f"Invalid form: {error}") from error


async def _parse_multipart(request: Request) -> list[tuple[str, str]]:
    # The size of the whole body is checked before. Starlette answers other faults.
    form = await request.form(
        max_files=_MAX_FIELDS, max_fields=_MAX_FIELDS, max_part_size=2**62
    )
    items = [
        (name, value) for name, value in form.multi_items() if isinstance(value, str)
    ]
    await form.close()
    return items


def missing(name: str) -> HttpError:
    """Returns the error of a request without a parameter."""
    return HttpError(400, f"Invalid request: missing {name} parameter")


def invalid(name: str, expected: str) -> HttpError:
    """Returns the error of a parameter of another kind."""
    return HttpError(400, f"Invalid request: {name} parameter is not {expected}")
