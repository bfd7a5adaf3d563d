"""Conversion between arrays and TensorProto, and malformed TensorProto messages."""

from types import MappingProxyType

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from t2t_keras.server.tf_serving.tensors import to_array, to_proto

ARRAYS = (
    np.array([b"a\0", b"", b"\xff\xfe", "é".encode()], object),
    np.array(b"scalar\0", object),
    np.array([], object),
    np.zeros([0, 3], np.float32),
    np.array([[1.5, -0.0], [np.inf, 3e-42]], np.float32),
    np.array(2.5, np.float64),
    np.array([2**31 - 1, -5], np.int32),
    np.array([2**63 - 1], np.int64),
    np.array([2**64 - 1], np.uint64),
    np.array([2**32 - 1], np.uint32),
    np.array([[True], [False]]),
    np.array([-7], np.int8),
    np.array([200], np.uint8),
    np.array([1.5], np.float16),
    np.array([1.5], tf.bfloat16.as_numpy_dtype),
    np.array([1 + 2j], np.complex64),
)


def test_arrays_survive_a_round_trip():
    for array in ARRAYS:
        converted = to_array(to_proto(array))
        assert converted.dtype == array.dtype, array
        assert converted.shape == array.shape, array
        np.testing.assert_array_equal(converted, array, repr(array))
        by_tensorflow = tf.make_ndarray(to_proto(array))
        np.testing.assert_array_equal(by_tensorflow, array, repr(array))


def test_values_are_in_the_field_of_their_type():
    """Clients in other languages read only this field."""
    assert to_proto(np.array([1.5], np.float32)).float_val == [1.5]
    assert to_proto(np.array([3], np.int64)).int64_val == [3]
    assert to_proto(np.array([b"x"], object)).string_val == [b"x"]
    assert to_proto(np.array([True])).bool_val == [True]


def test_the_last_value_is_repeated():
    proto = tf.make_tensor_proto(["a", "b"])
    proto.tensor_shape.dim[0].size = 4
    assert to_array(proto).tolist() == [b"a", b"b", b"b", b"b"]


def break_proto(change):
    proto = tf.make_tensor_proto([1.0, 2.0])
    change(proto)
    return proto


BROKEN = MappingProxyType(
    {
        "content of another size": break_proto(
            lambda p: setattr(p, "tensor_content", b"abc")
        ),
        "a negative size": break_proto(
            lambda p: setattr(p.tensor_shape.dim[0], "size", -3)
        ),
        "a type there is not": break_proto(lambda p: setattr(p, "dtype", 77)),
        "a variant": break_proto(lambda p: setattr(p, "dtype", types_pb2.DT_VARIANT)),
        "a size beyond 64 bits": break_proto(
            lambda p: [p.tensor_shape.dim.add(size=2**40) for _ in range(3)]
        ),
        "nothing": tensor_pb2.TensorProto(),
    }
)


@pytest.mark.parametrize("proto", BROKEN.values(), ids=BROKEN.keys())
def test_malformed_tensors_are_refused(proto):
    with pytest.raises(ValueError, match=r"no tensor|too large"):
        to_array(proto)


@pytest.mark.parametrize("value", [np.float64(1.0), b"a b c"], ids=["number", "text"])
def test_a_repeated_value_is_limited(value):
    proto = tf.make_tensor_proto(value)
    proto.tensor_shape.dim.add(size=1 << 10)
    proto.tensor_shape.dim.add(size=1 << 10)
    assert to_array(proto).shape == (1024, 1024)
    proto.tensor_shape.dim.add(size=2)
    with pytest.raises(ValueError, match="2,097,152 elements is too large"):
        to_array(proto)


@pytest.mark.parametrize("packed", [False, True])
def test_many_given_values_are_accepted(packed):
    array = np.arange(3 << 20, dtype=np.int32)
    proto = tf.make_tensor_proto(array) if packed else to_proto(array)
    assert bool(proto.tensor_content) == packed
    np.testing.assert_array_equal(to_array(proto), array)


def test_a_repeated_long_string_is_limited():
    proto = tf.make_tensor_proto([b"x" * 1000])
    proto.tensor_shape.dim[0].size = 1 << 20
    with pytest.raises(ValueError, match="1,048,576 elements is too large"):
        to_array(proto)
