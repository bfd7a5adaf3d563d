"""Tensors without TensorFlow, compared with its own; checks of an answer."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.tensors import (
    Answer,
    TensorProto,
    float32_tensor,
    int32_tensor,
    nested_values,
    string_tensor,
)


def make_array(proto):
    """Returns a tensor's array, read by TensorFlow from the bytes of the message."""
    return tf.make_ndarray(tensor_pb2.TensorProto.FromString(proto.SerializeToString()))


def test_texts_are_encoded_byte_for_byte():
    texts = ["Größe", b"a\x00b", b"\xff\xfe", "", "\u2028", "\ud800"]
    array = make_array(string_tensor(texts))
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
    ints = make_array(int32_tensor([3, -(2**31), 2**31 - 1]))
    assert (ints.dtype, ints.tolist()) == (np.int32, [3, -(2**31), 2**31 - 1])
    floats = make_array(float32_tensor([0.1, 2]))
    assert floats.dtype == np.float32
    np.testing.assert_array_equal(floats, np.array([0.1, 2], np.float32))


def test_empty_tensors():
    for make in (string_tensor, int32_tensor, float32_tensor):
        proto = make([])
        assert make_array(proto).shape == (0,)
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
        ours = TensorProto.FromString(proto.SerializeToString())
        assert nested_values(ours) == array.tolist(), row


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.float_val.append(1.0), r"3 values in a tensor of shape \[2\]"),
        (lambda p: p.tensor_shape.dim.add(size=-1), r"2 values .* shape \[2, -1\]"),
        (lambda p: setattr(p, "dtype", 2), "a tensor of dtype DT_DOUBLE"),
        (lambda p: setattr(p, "dtype", 14), "a tensor of dtype number 14"),
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


def answer(**outputs):
    return Answer(outputs, 2, "nbest")


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            {"b": [1.0], "a": [2.0]},
            r"returned no output 'score' \(got: a, b\)\. Is it a model",
        ),
        ({"score": [1.0]}, "returned 1 value for 2 texts in output 'score'"),
        ({"score": 1.0}, "returned a scalar for 2 texts in output 'score'"),
        ({"score": [1.0, b"x"]}, "returned 'score' as bytes instead of float"),
        ({"score": [[1.0], [1.0]]}, "returned 'score' as list instead of float"),
    ],
)
def test_errors_of_a_column(outputs, message):
    with pytest.raises(ServerError, match=message) as raised:
        answer(**outputs).column("score", float)
    assert raised.value.code is None


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"lengths": [1, 2]}, "returned 'lengths' as int instead of list"),
        (
            {"lengths": [[1, 1], [2, 2.0]]},
            "returned 'lengths' as float instead of int",
        ),
        (
            {"lengths": [[1], [2]]},
            "returns 1 translations of each text. Received: n_bes",
        ),
    ],
)
def test_errors_of_rows(outputs, message):
    with pytest.raises(ServerError, match=message):
        answer(**outputs).rows("lengths", int, at_least=2)


def test_maps_have_four_dimensions_for_each_text():
    weights = [[[[[0.5, 0.5]]]], [[[[1.0]]]]]
    assert answer(weights=weights).maps("weights") == weights
    for wrong, message in (
        ([[[[0.5]]], [[[1.0]]]], "'weights' as float instead of list"),
        ([[[[[1]]]], [[[[1.0]]]]], "'weights' as int instead of float"),
        ([[[[[1.0]]]]], "1 value for 2 texts in output 'weights'"),
    ):
        with pytest.raises(ServerError, match=message):
            answer(weights=wrong).maps("weights")
