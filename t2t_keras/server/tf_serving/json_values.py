"""Single values in JSON: their types, base64, and errors with what was received.

Messages of errors are those of tensorflow_serving/util/json_tensor.cc.
"""

import base64
import contextlib
import json
import re
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from t2t_keras.server.tf_serving.errors import (
    ServingError,
    invalid_argument,
    unimplemented,
)

# Longest extract of a value in a message.
_LONGEST_VALUE = 256
# White space between and after the characters of base64, as tools write it, is skipped.
_SPACE = re.compile(r"[ \t\n\v\f\r]+")
_BASE64 = re.compile(r"([A-Za-z0-9+/]*+)([=.]*+)")
# Smallest and largest values, looked up once: `DType` computes them at each call, which
# takes longer than all else that is done for a value.
_INTEGERS = MappingProxyType(
    {
        dtype: (int(dtype.min), int(dtype.max))
        for dtype in (
            tf.int8,
            tf.int16,
            tf.int32,
            tf.int64,
            tf.uint8,
            tf.uint32,
            tf.uint64,
        )
    }
)
# All types of tensors that tensorflow_serving/util/json_tensor.cc reads and writes.
JSON_TYPES = frozenset({tf.bool, tf.string, tf.float32, tf.float64, *_INTEGERS})


def to_scalar(value: Any, dtype: tf.DType) -> Any:
    """Returns a value of JSON as one of a type: bytes, bool, int or float.

    Raises:
        ServingError: If it is of another kind, or too large.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if dtype == tf.string:
        if isinstance(value, dict):
            return _decode_base64(value)
        if isinstance(value, str):
            return value.encode()
    elif dtype == tf.bool:
        if isinstance(value, bool):
            return value
    elif dtype in _INTEGERS:
        least, most = _INTEGERS[dtype]
        if number and isinstance(value, int) and least <= value <= most:
            return value
    elif dtype in (tf.float32, tf.float64):
        if number:
            with contextlib.suppress(OverflowError):  # an integer of 309 digits
                return float(value)
    else:
        raise unimplemented(
            f"Conversion of JSON Value: {extract(value)} to type: {type_name(dtype)}"
        )
    raise _type_error(value, dtype)


def is_base64(value: Any) -> bool:
    """Returns whether a value stands for bytes: `{"b64": "…"}`."""
    return (
        isinstance(value, dict) and list(value) == ["b64"] and type(value["b64"]) is str
    )


def is_named(value: Any) -> bool:
    """Returns whether a value is an object with tensors by name."""
    return isinstance(value, dict) and not is_base64(value)


def _decode_base64(value: dict) -> bytes:
    if not is_base64(value):
        raise invalid_argument(
            f"JSON Value: {extract(value)} not formatted correctly for base64 data"
        )
    match = _BASE64.fullmatch(_SPACE.sub("", value["b64"]))
    if match:
        digits, padding = match.groups()
        missing = -len(digits) % 4
        # Padding is optional, as in TensorFlow Serving.
        if missing < 3 and len(padding) in (0, missing):
            return base64.b64decode(digits + "=" * missing)
    raise invalid_argument("Unable to base64 decode")


def _type_error(value: Any, dtype: tf.DType) -> ServingError:
    kinds = {None: "Null", False: "False", True: "True"}
    kind = "Number"
    if value is None or isinstance(value, bool):
        kind = kinds[value]
    elif isinstance(value, str | dict):
        kind = "String" if isinstance(value, str) else "Object"
    return invalid_argument(
        f"JSON Value: {extract(value)} Type: {kind} is not of expected type: "
        f"{type_name(dtype)}"
    )


def type_name(dtype: tf.DType) -> str:
    """Returns TensorFlow's own name of a type, which Python has for most."""
    names = {"float16": "half", "float32": "float", "float64": "double"}
    return names.get(str(dtype.name), str(dtype.name))


def extract(value: Any) -> str:
    """Returns the beginning of a value as JSON, for messages."""
    text = ""
    # Piece by piece, since a value may be large, or deeper than Python's stack.
    for piece in json.JSONEncoder().iterencode(value):
        text += piece
        if len(text) > _LONGEST_VALUE:
            return text[:_LONGEST_VALUE] + "…"
    return text
