"""Conversion of TensorProto without TensorFlow, compared with TensorFlow's own."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.serving.client.tensors import (
    float32_tensor,
    int32_tensor,
    nested_values,
    string_tensor,
)


def test_texts_are_encoded_byte_for_byte():
    texts = ["Größe", b"a\x00b", b"\xff\xfe", "", "\u2028", "\ud800"]
    array = tf.make_ndarray(string_tensor(texts))
    assert (array.dtype, array.shape) == (object, (6,))
    assert array.tolist() == [
        "Größe".encode(),
        b"a\x00b",
        b"\xff\xfe",
        b"",
        "\u2028".encode(),
        b"?",
    ]


def test_numbers_are_encoded_in_their_dtype():
    ints = tf.make_ndarray(int32_tensor([3, -(2**31), 2**31 - 1]))
    assert (ints.dtype, ints.tolist()) == (np.int32, [3, -(2**31), 2**31 - 1])
    floats = tf.make_ndarray(float32_tensor([0.1, 2]))
    assert floats.dtype == np.float32
    np.testing.assert_array_equal(floats, np.array([0.1, 2], np.float32))


def test_empty_tensors():
    for make in (string_tensor, int32_tensor, float32_tensor):
        proto = make([])
        assert tf.make_ndarray(proto).shape == (0,)
        assert nested_values(proto) == []


DTYPES = ("float32", "int32", "int64", "bool", "object")
SHAPES = ((), (1,), (3,), (2, 3), (3, 1, 2), (0,), (0, 3), (3, 0))


def test_values_are_decoded_in_their_shape():
    """A server's flags decide whether it packs numbers into `tensor_content`."""
    for row in itertools.product(DTYPES, SHAPES, (True, False)):
        dtype, shape, packed = row
        # With this seed, the first number is negative and the second is zero.
        numbers = np.random.default_rng(1).integers(-5, 5, shape)
        array = numbers.astype(dtype)
        if dtype == "object":
            array = np.array(numbers.astype(str).astype(bytes), object)
        proto = tf.make_tensor_proto(array, shape=shape)
        if not packed and proto.tensor_content:
            proto.ClearField("tensor_content")
            field = {"float32": "float_val", "int32": "int_val", "bool": "bool_val"}
            getattr(proto, field.get(dtype, "int64_val")).extend(array.ravel().tolist())
        assert nested_values(proto) == array.tolist(), row


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.float_val.append(1.0), r"3 values in a tensor of shape \[2\]"),
        (lambda p: p.tensor_shape.dim.add(size=-1), r"2 values .* shape \[2, -1\]"),
        (lambda p: setattr(p, "dtype", 2), "a tensor of dtype DT_DOUBLE"),
        (lambda p: setattr(p, "tensor_content", b"abcde"), "5 bytes of packed values"),
    ],
)
def test_malformed_tensors_are_refused(change, message):
    proto = float32_tensor([1.0, 2.0])
    change(proto)
    with pytest.raises(ValueError, match=message):
        nested_values(proto)


def test_packed_strings_are_refused_with_the_name_of_the_servers_flag():
    proto = string_tensor([b"a"])
    proto.tensor_content = b"\x01a"
    with pytest.raises(ValueError, match="--enable_serialization_as_tensor_content"):
        nested_values(proto)
