"""Tensors in JSON, as TensorFlow Serving's REST API has them.

Messages of errors are those of tensorflow_serving/util/json_tensor.cc.

Shapes: B batch.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from t2t_keras.serving.server.errors import (
    ServingError,
    invalid_argument,
    unimplemented,
)
from t2t_keras.serving.server.tensors import to_array, to_proto

# Longest extract of a value in a message.
_LONGEST_VALUE = 256
# Escapes of both halves of surrogate pairs.
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
# An output whose name ends so is encoded in base64.
_BYTES = "_bytes"
_INTEGERS = (
    tf.int8,
    tf.int16,
    tf.int32,
    tf.int64,
    tf.uint8,
    tf.uint16,
    tf.uint32,
    tf.uint64,
)


class PredictBody(NamedTuple):
    """Body of a request to predict.

    Attributes:
        signature_name: Name of the signature; "" for the default.
        rows: Value of "instances", a list of rows; None in the other format.
        columns: Value of "inputs": tensors by name, or the only tensor.
    """

    signature_name: str
    rows: list[Any] | None
    columns: Any


def parse_body(body: bytes) -> PredictBody:
    """Returns the parts of a request's body; tensors are not looked at.

    Raises:
        ServingError: If it is no JSON, or not of the API.
    """
    value = _parse_json(body)
    if not isinstance(value, dict):
        raise invalid_argument(f"JSON Value: {_extract(value)} Is not object")
    name = value.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid_argument(
            f"JSON Value: {_extract(value)} not formatted correctly. 'signature_name' "
            "key must be a string value."
        )
    if "instances" not in value:
        if "inputs" not in value:
            raise invalid_argument("Missing 'inputs' or 'instances' key")
        return PredictBody(name, None, value["inputs"])
    rows = value["instances"]
    problem = ""
    if "inputs" in value:
        problem = (
            "Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist "
        )
    elif not isinstance(rows, list):
        problem = "Expecting 'instances' to be an list/array"
    elif not rows:
        problem = "No values in 'instances' array"
    if problem:
        raise invalid_argument(f"JSON Value: {_extract(value)} {problem}")
    return PredictBody(name, rows, None)


def _parse_json(body: bytes) -> Any:
    if not body:
        raise invalid_argument("JSON Parse error: The document is empty")
    try:
        text = body.decode("utf-8-sig").lstrip(" \t\r\n")
        # What follows the first value is ignored, as in TensorFlow Serving.
        value = json.JSONDecoder().raw_decode(text)[0]
        # UTF-8 has no half of a surrogate pair, in whatever string it is.
        if _HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        raise invalid_argument(
            "JSON Parse error: The surrogate pair in string is invalid. Received: "
            + _extract(error.object[error.start :])
        ) from error
    except UnicodeDecodeError as error:
        raise invalid_argument(
            f"JSON Parse error: Invalid encoding in string: {error.reason} at offset: "
            f"{error.start}"
        ) from error
    except json.JSONDecodeError as error:
        raise invalid_argument(
            f"JSON Parse error: Invalid value. {error.msg} at offset: {error.pos}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise invalid_argument(
            f"JSON Parse error: Invalid value. {error} at offset: 0"
        ) from error


def to_request(body: PredictBody, inputs: Mapping[str, Any]) -> Any:
    """Returns a `PredictRequest` without model.

    Args:
        body: Parts of the body.
        inputs: `TensorInfo`s of the signature's inputs by name.

    Raises:
        ServingError: If the tensors are not those of the signature.
    """
    if not inputs:
        raise invalid_argument(
            f"Failed to get input map for signature: {body.signature_name or 'DEFAULT'}"
        )
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = body.signature_name
    if body.rows is not None:
        columns = _columns_of_rows(body.rows, inputs)
    else:
        columns = _columns(body.columns, inputs)
    for name, value in columns.items():
        dtype = tf.as_dtype(inputs[name].dtype)
        request.inputs[name].CopyFrom(to_proto(_to_array(value, dtype)))
    return request


def _columns(value: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict) or _is_base64(value):
        if len(inputs) > 1:
            raise invalid_argument(
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required as per tensorinfo_map"
            )
        return {name: value for name in inputs}
    for name in inputs:
        if name not in value:
            raise invalid_argument(f"Missing named input: {name} in 'inputs' object.")
    return {name: value[name] for name in inputs}


def _columns_of_rows(rows: list[Any], inputs: Mapping[str, Any]) -> dict[str, list]:
    named = _is_named(rows[0])
    if not isinstance(rows[0], dict) and len(inputs) > 1:
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map"
        )
    for index, row in enumerate(rows):
        if named and not _is_named(row):
            raise invalid_argument(
                f"Expecting object but got list at item {index} of input list"
            )
        if not named and _is_named(row):
            raise invalid_argument(
                f"Expecting value/list but got object at item {index} of input list"
            )
        if not named:
            continue
        for name in row:
            if name not in inputs:
                raise invalid_argument(
                    f"Failed to process element: {index} key: {name} of 'instances' "
                    "list. Error: INVALID_ARGUMENT: JSON object: does not have named "
                    f"input: {name}"
                )
        if len(row) != len(inputs):
            raise invalid_argument(
                f"Failed to process element: {index} of 'instances' list. JSON object: "
                f"{_extract(row)} keys must be equal to: {','.join(sorted(inputs))}"
            )
    if named:
        return {name: [row[name] for row in rows] for name in inputs}
    (name, *_) = inputs
    return {name: rows}


def _to_array(value: Any, dtype: tf.DType) -> np.ndarray:
    """Returns the array of a nested list of one depth and, at each, of one length."""
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    values: list[Any] = []
    _add_values(value, dtype, shape, 0, values)
    kind = object if dtype == tf.string else dtype.as_numpy_dtype
    array = np.empty(len(values), kind)
    array[:] = values
    return array.reshape(shape)


def _add_values(
    value: Any, dtype: tf.DType, shape: list[int], level: int, values: list[Any]
) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid_argument(
                f"JSON Value: {_extract(value)} found at incorrect level: {level + 1} "
                f"in the JSON DOM. Expected at level: {len(shape)}"
            )
        values.append(_scalar(value, dtype))
        return
    if level >= len(shape):
        raise invalid_argument(
            f"Encountered list at unexpected level: {level} expected < {len(shape)}"
        )
    if len(value) != shape[level]:
        raise invalid_argument(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for each in value:
        _add_values(each, dtype, shape, level + 1, values)


def _scalar(value: Any, dtype: tf.DType) -> Any:
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
        whole = number and isinstance(value, int)
        if whole and dtype.min <= value <= dtype.max:
            return value
    elif dtype in (tf.float32, tf.float64):
        if number:
            return _float(value)
    else:
        raise unimplemented(
            f"Conversion of JSON Value: {_extract(value)} to type: {dtype.name}"
        )
    raise _type_error(value, dtype)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf if value > 0 else -math.inf


def _is_base64(value: Any) -> bool:
    return (
        isinstance(value, dict) and list(value) == ["b64"] and type(value["b64"]) is str
    )


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and not _is_base64(value)


def _decode_base64(value: dict) -> bytes:
    if not _is_base64(value):
        raise invalid_argument(
            f"JSON Value: {_extract(value)} not formatted correctly for base64 data"
        )
    text = value["b64"]
    try:
        # Padding is optional, as in TensorFlow Serving.
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid_argument("Unable to base64 decode") from error


def _type_error(value: Any, dtype: tf.DType) -> ServingError:
    kinds = {None: "Null", False: "False", True: "True"}
    kind = "Number"
    if value is None or isinstance(value, bool):
        kind = kinds[value]
    elif isinstance(value, str | dict):
        kind = "String" if isinstance(value, str) else "Object"
    name = {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)
    return invalid_argument(
        f"JSON Value: {_extract(value)} Type: {kind} is not of expected type: {name}"
    )


def _extract(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def from_response(response: Any, by_rows: bool) -> bytes:
    """Returns the body of an answer.

    Args:
        response: A `PredictResponse`.
        by_rows: Whether the request was in row format.

    Raises:
        ServingError: If outputs have no rows, or different numbers of them.
    """
    columns = {
        name: _to_json(name, to_array(proto))
        for name, proto in sorted(response.outputs.items())
    }
    if by_rows:
        _check_rows(response.outputs)
        rows: Any = [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
        if len(columns) == 1:
            (rows,) = columns.values()
        return _dump({"predictions": rows})
    if len(columns) == 1:
        return _dump({"outputs": next(iter(columns.values()))})
    return _dump({"outputs": columns})


def _check_rows(outputs: Mapping[str, Any]) -> None:
    expected = None
    for name, proto in sorted(outputs.items()):
        if not proto.tensor_shape.dim:
            raise invalid_argument(f"Tensor name: {name} has no shape information ")
        rows = proto.tensor_shape.dim[0].size
        if expected is not None and rows != expected:
            raise invalid_argument(
                f"Tensor name: {name} has inconsistent batch size: {rows} expecting: "
                f"{expected}"
            )
        expected = rows


def _to_json(name: str, array: np.ndarray) -> Any:
    """Returns a nested list of values that JSON can have."""
    if array.dtype == object:
        encode = _to_base64 if name.endswith(_BYTES) else _decode
        return np.vectorize(encode, otypes=[object])(array).tolist()
    if array.dtype == np.float32:
        # The shortest number that is read as the same float32: 0.1, as against
        # 0.10000000149011612.
        return array.astype(str).astype(np.float64).tolist()
    return array.tolist()


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _to_base64(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode()}


def _dump(value: Any) -> bytes:
    # Bytes that are not UTF-8 leave as they came.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")
