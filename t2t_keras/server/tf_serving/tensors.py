"""Tensors between the wire and a session: `TensorProto` to NumPy and back."""

import math

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

# A few bytes may claim a shape of any size, because one value stands for all that
# follow it. A message beyond these limits is an attack or a mistake.
MOST_REPEATED = 1 << 20
MOST_REPEATED_BYTES = 1 << 28
# TensorFlow 2.21 crashes where it gives NumPy a string tensor of more.
MOST_DIMENSIONS = 32

_INT = frozenset({tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16})


def to_array(proto: tensor_pb2.TensorProto) -> np.ndarray:
    """Returns the array that a message holds, read as a server in C++ reads it.

    Args:
        proto: Tensor of a numeric, boolean or string type; strings may be any bytes.

    Returns:
        An array of the same shape; strings as objects.

    Raises:
        ValueError: If the message is not a tensor, has more than `MOST_DIMENSIONS`, or
            claims more than `MOST_REPEATED` elements, or strings of
            `MOST_REPEATED_BYTES`, that it does not bring.
    """
    dimensions = len(proto.tensor_shape.dim)
    if dimensions > MOST_DIMENSIONS:
        raise ValueError(
            f"A tensor of {dimensions} dimensions is too large; at most "
            f"{MOST_DIMENSIONS} are possible."
        )
    elements = math.prod(max(dim.size, 1) for dim in proto.tensor_shape.dim)
    repeated = elements - _count_given_values(proto)
    string_bytes = len(proto.string_val[-1]) if proto.string_val else 0
    if repeated > MOST_REPEATED or repeated * string_bytes > MOST_REPEATED_BYTES:
        raise ValueError(f"A tensor of {elements:,} elements is too large.")
    try:
        dtype = tf.as_dtype(proto.dtype)
        value = tf.raw_ops.ParseTensor(
            serialized=proto.SerializeToString(), out_type=dtype
        ).numpy()
    except (tf.errors.OpError, TypeError, ValueError) as error:
        raise ValueError("The message holds no tensor.") from error
    # For a scalar, `numpy()` returns plain bytes; their trailing zeros must survive.
    return np.asarray(value, dtype=object if dtype == tf.string else None)


def _count_given_values(proto: tensor_pb2.TensorProto) -> int:
    """Returns an upper bound on the number of values that a message holds."""
    fields = proto.ListFields()
    values = (len(value) for field, value in fields if field.name.endswith("_val"))
    return sum(values, start=len(proto.tensor_content))


def to_proto(array: np.ndarray) -> tensor_pb2.TensorProto:
    """Returns the message of an array, its values in the field of their type.

    Bytes in `tensor_content` would be shorter, but clients that read the fields
    would find nothing there.
    """
    dtype = tf.as_dtype(array.dtype)
    if dtype == tf.bool:
        field = "bool_val"
    elif dtype in _INT:
        field = "int_val"
    elif dtype == tf.float32:
        field = "float_val"
    elif dtype in (tf.int64, tf.uint32, tf.uint64):
        field = f"{dtype.name}_val"
    elif dtype == tf.float64:
        field = "double_val"
    elif dtype == tf.string:
        field = "string_val"
    else:
        return tf.make_tensor_proto(array)
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, field).extend(array.ravel().tolist())
    return proto
