"""JSON documents of requests: Python's parser, which takes what RapidJSON takes.

TensorFlow Serving parses with RapidJSON; the words of errors are Python's.
"""

import codecs
import json
import math
import re
from typing import Any

from t2t_keras.server.tf_serving.errors import invalid_argument

# Python imports it at its first use, when there may be no file descriptor left.
codecs.lookup("utf-8-sig")

_WHITE_SPACE = " \t\r\n"
# Escapes of both halves of surrogate pairs.
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def parse_document(body: bytes) -> Any:
    """Returns the value of a body; what follows the first value is ignored.

    Of several members of an object with the same name, the first counts.

    Raises:
        ServingError: If it is no JSON, or is nested too deeply for Python's parser.
    """
    try:
        text = body.decode("utf-8-sig")
        start = len(text) - len(text.lstrip(_WHITE_SPACE))
        value = _DECODER.raw_decode(text, start)[0]
        # UTF-8 has no half of a surrogate pair, in whatever string it is.
        if _HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RecursionError:
        problem = "the document is nested too deeply"
    except ValueError as error:
        problem = str(error)
    raise invalid_argument(f"JSON Parse error: {problem}")


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"a number is too large for a double: {text[:30]}")
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        members.setdefault(name, value)
    return members


# Integers without a hook: there may be millions.
_DECODER = json.JSONDecoder(parse_float=_parse_float, object_pairs_hook=_make_object)
