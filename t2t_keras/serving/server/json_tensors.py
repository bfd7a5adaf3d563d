"""Tensors in JSON, as TensorFlow Serving's REST API has them.

Messages of errors are those of tensorflow_serving/util/json_tensor.cc.

Shapes: B batch.
"""

import base64
import contextlib
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from t2t_keras.serving.server.errors import (
    ServingError,
    invalid_argument,
    unimplemented,
)
from t2t_keras.serving.server.json_documents import parse_document
from t2t_keras.serving.server.tensors import MOST_DIMENSIONS, to_array, to_proto

# Longest extract of a value in a message.
_LONGEST_VALUE = 256
# White space between and after the characters of base64, as tools write it, is skipped.
_SPACE = re.compile(r"[ \t\n\v\f\r]+")
_BASE64 = re.compile(r"([A-Za-z0-9+/]*+)([=.]*+)")
# An output whose name ends so is encoded in base64.
_BYTES = "_bytes"
# Smallest and largest values, looked up once: `DType` computes them at each call, which
# takes longer than all else that is done for a value.
_INTEGERS = MappingProxyType(
    {
        dtype: (int(dtype.min), int(dtype.max))
        for dtype in (
            *(tf.int8, tf.int16, tf.int32, tf.int64),
            *(tf.uint8, tf.uint16, tf.uint32, tf.uint64),
        )
    }
)


class PredictBody(NamedTuple):
    """Body of a request to predict, of which only the signature's name is checked.

    The signature is looked up before the tensors: if the model is not there, no tensors
    are right or wrong.

    Attributes:
        signature_name: Name of the signature; "" for the default.
        document: Members of the body.
    """

    signature_name: str
    document: dict[str, Any]

    @property
    def by_rows(self) -> bool:
        """Whether it has rows ("instances") rather than columns ("inputs")."""
        return "instances" in self.document


def parse_body(body: bytes) -> PredictBody:
    """Returns the parts of a request's body; tensors are not looked at.

    Raises:
        ServingError: If it is no JSON, or not of the API.
    """
    document = parse_document(body)
    if not isinstance(document, dict):
        raise invalid_argument(f"JSON Value: {_extract(document)} Is not object")
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid_argument(
            f"JSON Value: {_extract(document)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return PredictBody(name, document)


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
    if body.by_rows:
        arrays = _arrays_of_rows(_rows(body.document), inputs)
    elif "inputs" in body.document:
        arrays = {
            name: _array(value, tf.as_dtype(inputs[name].dtype))
            for name, value in _columns(body.document["inputs"], inputs).items()
        }
    else:
        raise invalid_argument("Missing 'inputs' or 'instances' key")
    for name, array in arrays.items():
        request.inputs[name].CopyFrom(to_proto(array))
    return request


def _rows(document: dict[str, Any]) -> list[Any]:
    rows = document["instances"]
    if "inputs" in document:
        problem = (
            "Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist "
        )
    elif not isinstance(rows, list):
        problem = "Expecting 'instances' to be an list/array"
    elif not rows:
        problem = "No values in 'instances' array"
    else:
        return rows
    raise invalid_argument(f"JSON Value: {_extract(document)} {problem}")


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


def _arrays_of_rows(
    rows: list[Any], inputs: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    named = _is_named(rows[0])
    if not isinstance(rows[0], dict) and len(inputs) > 1:
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map"
        )
    columns = {
        name: _Column(tf.as_dtype(inputs[name].dtype))
        for name in (inputs if named else list(inputs)[:1])
    }
    for index, row in enumerate(rows):
        if named != _is_named(row):
            expected = "object but got list" if named else "value/list but got object"
            raise invalid_argument(
                f"Expecting {expected} at item {index} of input list"
            )
        items = row.items() if named else [(name, row) for name in columns]
        for name, item in items:
            try:
                if name not in columns:
                    raise invalid_argument(
                        f"JSON object: does not have named input: {name}"
                    )
                columns[name].add(item)
            except ServingError as error:
                key = f" key: {name}" if named else ""
                raise invalid_argument(
                    f"Failed to process element: {index}{key} of 'instances' list. "
                    f"Error: {error}"
                ) from error
        if named and len(row) != len(inputs):
            raise invalid_argument(
                f"Failed to process element: {index} of 'instances' list. JSON object: "
                f"{_extract(row)} keys must be equal to: {','.join(sorted(inputs))}"
            )
    return {name: column.array(len(rows)) for name, column in columns.items()}


class _Column:
    """Values of one input, row by row; all rows have the shape of the first."""

    def __init__(self, dtype: tf.DType):
        self._dtype = dtype
        self._values: list[Any] = []
        self._size = 0
        self._shape: list[int] | None = None

    def add(self, item: Any) -> None:
        shape = _shape(item, MOST_DIMENSIONS - 1)
        before = len(self._values)
        _add_values(item, self._dtype, shape, 0, self._values)
        size = len(self._values) - before
        if self._shape is None:
            self._size, self._shape = size, shape
        if size != self._size:
            raise invalid_argument(
                f"Expecting tensor size: {self._size} but got: {size}"
            )
        if shape != self._shape:
            raise invalid_argument(
                f"Expecting shape {_join(self._shape)} but got: {_join(shape)}"
            )

    def array(self, rows: int) -> np.ndarray:
        return _to_array(self._values, self._dtype, [rows, *(self._shape or [])])


def _array(value: Any, dtype: tf.DType) -> np.ndarray:
    shape = _shape(value, MOST_DIMENSIONS)
    values: list[Any] = []
    _add_values(value, dtype, shape, 0, values)
    return _to_array(values, dtype, shape)


def _shape(value: Any, most: int) -> list[int]:
    """Returns the lengths of nested lists, each the first of its list."""
    shape = []
    inner = value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    if len(shape) > most:
        raise invalid_argument(
            f"JSON Value: {_extract(value)} makes a tensor of more than "
            f"{MOST_DIMENSIONS} dimensions"
        )
    return shape


def _join(shape: list[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _to_array(values: list[Any], dtype: tf.DType, shape: list[int]) -> np.ndarray:
    array = np.empty(
        len(values), object if dtype == tf.string else dtype.as_numpy_dtype
    )
    # A number that is too large for float32 is infinite, as in TensorFlow Serving.
    with np.errstate(over="ignore"):
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
        least, most = _INTEGERS[dtype]
        if number and isinstance(value, int) and least <= value <= most:
            return value
    elif dtype in (tf.float32, tf.float64):
        if number:
            with contextlib.suppress(OverflowError):  # an integer of 309 digits
                return float(value)
    else:
        raise unimplemented(
            f"Conversion of JSON Value: {_extract(value)} to type: {dtype.name}"
        )
    raise _type_error(value, dtype)


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
    name = {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)
    return invalid_argument(
        f"JSON Value: {_extract(value)} Type: {kind} is not of expected type: {name}"
    )


def _extract(value: Any) -> str:
    text = ""
    # Piece by piece, since a value may be large, or deeper than Python's stack.
    for piece in json.JSONEncoder().iterencode(value):
        text += piece
        if len(text) > _LONGEST_VALUE:
            return text[:_LONGEST_VALUE] + "…"
    return text


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
