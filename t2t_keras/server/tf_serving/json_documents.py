"""JSON documents of requests: parsed by Python, with RapidJSON's words for errors.

TensorFlow Serving parses with RapidJSON. Offsets are in bytes of the body, as there.
"""

import json
import math
import re
from typing import Any, NoReturn

from t2t_keras.server.tf_serving.errors import invalid_argument

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHITE_SPACE = " \t\r\n"
# Escapes of both halves of surrogate pairs.
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
# How Python's messages begin, and what RapidJSON says.
_PROBLEMS = (
    ("Expecting property name", "Missing a name for object member."),
    (
        "Illegal trailing comma before end of object",
        "Missing a name for object member.",
    ),
    ("Expecting ':'", "Missing a colon after a name of object member."),
    # RapidJSON knows which of the two it is in.
    ("Expecting ','", "Missing a comma or ']' or '}' after a value."),
    ("Unterminated string", "Missing a closing quotation mark in string."),
    ("Invalid control character", "Invalid encoding in string."),
    ("Invalid \\uXXXX escape", "Incorrect hex digit after \\u escape in string."),
    ("Invalid \\escape", "Invalid escape character in string."),
)


def parse_document(body: bytes) -> Any:
    """Returns the value of a body; what follows the first value is ignored.

    Of several members of an object with the same name, the first counts.

    Raises:
        ServingError: If it is no JSON, or is nested too deeply for Python's parser.
    """
    if not body:
        raise invalid_argument("JSON Parse error: The document is empty")
    mark = len(_BYTE_ORDER_MARK) if body.startswith(_BYTE_ORDER_MARK) else 0
    try:
        text = body[mark:].decode()
        start = len(text) - len(text.lstrip(_WHITE_SPACE))
        if start == len(text):
            _fail("The document is empty.", len(body))
        value = _DECODER.raw_decode(text, start)[0]
        # UTF-8 has no half of a surrogate pair, in whatever string it is.
        if _HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except json.JSONDecodeError as error:
        found = (words for start, words in _PROBLEMS if error.msg.startswith(start))
        _fail(next(found, "Invalid value."), mark + _offset(error))
    except UnicodeDecodeError as error:
        _fail("Invalid encoding in string.", mark + error.start)
    except UnicodeEncodeError:
        raise invalid_argument(
            "JSON Parse error: The surrogate pair in string is invalid."
        ) from None
    except ValueError:
        raise invalid_argument(
            "JSON Parse error: Number too big to be stored in double."
        ) from None
    except RecursionError:
        raise invalid_argument(
            "JSON Parse error: The document is nested too deeply"
        ) from None


def _offset(error: json.JSONDecodeError) -> int:
    """Returns where RapidJSON finds an error, in bytes."""
    before = error.doc[: error.pos]
    if error.msg.startswith("Illegal trailing comma"):
        # Python has this message since 3.13, and stops at the comma.
        rest = error.doc[error.pos + 1 :].lstrip(_WHITE_SPACE)
        before = error.doc.removesuffix(rest)
    return len(before.encode())


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        members.setdefault(name, value)
    return members


# Integers without a hook: there may be millions.
_DECODER = json.JSONDecoder(parse_float=_parse_float, object_pairs_hook=_make_object)


def _fail(problem: str, offset: int) -> NoReturn:
    raise invalid_argument(f"JSON Parse error: {problem} at offset: {offset}")
