"""Tensors of a request in JSON, as TensorFlow Serving's REST API has them.

Messages of errors are those of tensorflow_serving/util/json_tensor.cc.

Shapes: B batch.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from t2t_keras.server.tf_serving.errors import ServingError, invalid_argument
from t2t_keras.server.tf_serving.json_documents import parse_document
from t2t_keras.server.tf_serving.json_values import (
    extract,
    is_base64,
    is_named,
    to_scalar,
)
from t2t_keras.server.tf_serving.tensors import MOST_DIMENSIONS, to_proto


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
        raise invalid_argument(f"JSON Value: {extract(document)} Is not object")
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid_argument(
            f"JSON Value: {extract(document)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return PredictBody(name, document)


def to_request(body: PredictBody, inputs: Mapping[str, Any]) -> Any:
    """Returns a `PredictRequest` without model, by the `TensorInfo`s of its inputs.

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
    raise invalid_argument(f"JSON Value: {extract(document)} {problem}")


def _columns(value: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict) or is_base64(value):
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
    named = is_named(rows[0])
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
        if named != is_named(row):
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
                f"{extract(row)} keys must be equal to: {','.join(sorted(inputs))}"
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
            f"JSON Value: {extract(value)} makes a tensor of more than "
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
                f"JSON Value: {extract(value)} found at incorrect level: {level + 1} "
                f"in the JSON DOM. Expected at level: {len(shape)}"
            )
        values.append(to_scalar(value, dtype))
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
