"""Python values to tensors in protocol buffers, and back, without NumPy."""

import math
import struct
from collections.abc import Sequence
from typing import Any

from t2t_keras.serving.client.protos import DataType, TensorProto


def string_tensor(values: Sequence[str | bytes]) -> TensorProto:
    """Returns [B] string; text as UTF-8, bytes as they are."""
    proto = _vector(DataType.DT_STRING, len(values))
    proto.string_val.extend(
        value.encode("utf-8", "replace") if isinstance(value, str) else value
        for value in values
    )
    return proto


def int32_tensor(values: Sequence[int]) -> TensorProto:
    """Returns [B] int32.

    Raises:
        ValueError: If a value does not fit.
    """
    proto = _vector(DataType.DT_INT32, len(values))
    proto.int_val.extend(values)
    return proto


def int64_tensor(values: Sequence[int]) -> TensorProto:
    """Returns [B] int64.

    Raises:
        ValueError: If a value does not fit.
    """
    proto = _vector(DataType.DT_INT64, len(values))
    proto.int64_val.extend(values)
    return proto


def float32_tensor(values: Sequence[float]) -> TensorProto:
    """Returns [B] float32."""
    proto = _vector(DataType.DT_FLOAT, len(values))
    proto.float_val.extend(values)
    return proto


def _vector(dtype: Any, length: int) -> TensorProto:
    proto = TensorProto(dtype=dtype)
    proto.tensor_shape.dim.add(size=length)
    return proto


def nested_values(proto: TensorProto) -> Any:
    """Returns a tensor's values in lists as deep as its shape; strings are bytes.

    Raises:
        ValueError: If the number of values does not fit the shape, or they are encoded
            in a way that no signature needs.
    """
    shape = [dim.size for dim in proto.tensor_shape.dim]
    values = _flat_values(proto)
    if len(values) != math.prod(shape):
        raise ValueError(f"{len(values)} values in a tensor of shape {shape}")
    return _nested(values, shape)


def _nested(values: Sequence[Any], shape: Sequence[int]) -> Any:
    if len(shape) < 2:
        return list(values) if shape else values[0]
    step = math.prod(shape[1:])
    rows = (values[row * step : (row + 1) * step] for row in range(shape[0]))
    return [_nested(row, shape[1:]) for row in rows]


def _flat_values(proto: TensorProto) -> Sequence[Any]:
    typed = {
        DataType.DT_FLOAT: ("f", proto.float_val),
        DataType.DT_INT32: ("i", proto.int_val),
        DataType.DT_INT64: ("q", proto.int64_val),
        DataType.DT_BOOL: ("?", proto.bool_val),
        DataType.DT_STRING: ("", proto.string_val),
    }
    if proto.dtype not in typed:
        raise ValueError(f"a tensor of dtype {DataType.Name(proto.dtype)}")
    code, values = typed[proto.dtype]
    packed = proto.tensor_content
    if not packed:
        return values
    if not code:
        raise ValueError(
            "strings in packed form, which a server writes that was started with "
            "--enable_serialization_as_tensor_content"
        )
    count, rest = divmod(len(packed), struct.calcsize(f"<{code}"))
    if rest:
        raise ValueError(f"{len(packed)} bytes of packed values of format {code!r}")
    return struct.unpack(f"<{count}{code}", packed)
