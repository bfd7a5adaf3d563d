"""Tensors of an answer in JSON, as TensorFlow Serving's REST API has them."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.server.tf_serving.errors import invalid_argument
from t2t_keras.server.tf_serving.json_values import JSON_TYPES, type_name
from t2t_keras.server.tf_serving.tensors import to_array

# An output whose name ends so is encoded in base64.
_BYTES = "_bytes"


def from_response(response: Any, by_rows: bool) -> bytes:
    """Returns the body of an answer to a request by rows, or by columns.

    Raises:
        ServingError: If outputs have no rows, or different numbers of them, or a type
            that the REST API does not write.
    """
    for proto in response.outputs.values():
        dtype = tf.as_dtype(proto.dtype)
        if dtype not in JSON_TYPES:
            raise invalid_argument(
                f"Failed to write JSON value for tensor type: {type_name(dtype)}"
            )
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
