"""JSON bodies of the REST API: rows, columns, types, and what is refused.

Expected messages are those of tensorflow_serving/util/json_tensor.cc.
"""

import base64
import json
import re
from types import MappingProxyType

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2

from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.json_answers import from_response
from t2t_keras.server.tf_serving.json_requests import parse_body, to_request


def infos(**dtypes):
    return {
        name: meta_graph_pb2.TensorInfo(dtype=tf.as_dtype(dtype).as_datatype_enum)
        for name, dtype in dtypes.items()
    }


def arrays(body, **dtypes):
    """Returns the arrays of a request's inputs by name."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = to_request(parse_body(body), infos(**dtypes))
    return {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}


def check(found, name, expected):
    np.testing.assert_array_equal(found[name], expected)
    assert found[name].dtype == expected.dtype
    assert found[name].shape == expected.shape


def texts(*values):
    return np.array(values, object)


def test_rows_of_one_input():
    check(arrays({"instances": ["ä", ""]}, x="string"), "x", texts("ä".encode(), b""))
    found = arrays({"instances": [[[1, 2]], [[3, 4]], [[5, 6]]]}, x="int32")
    check(found, "x", np.array([[[1, 2]], [[3, 4]], [[5, 6]]], np.int32))
    found = arrays({"instances": [{"x": 1.5}, {"x": -2}]}, x="float32")
    check(found, "x", np.array([1.5, -2], np.float32))


def test_rows_of_several_inputs():
    body = {"instances": [{"a": "x", "b": [1, 2]}, {"b": [3, 4], "a": "y"}]}
    found = arrays(body, a="string", b="int64")
    check(found, "a", texts(b"x", b"y"))
    check(found, "b", np.array([[1, 2], [3, 4]], np.int64))


def test_columns():
    check(arrays({"inputs": [True, False]}, x="bool"), "x", np.array([True, False]))
    check(arrays({"inputs": 2.5}, x="float64"), "x", np.array(2.5))
    found = arrays({"inputs": {"a": [], "b": [[1], [2]]}}, a="string", b="uint8")
    check(found, "a", np.array([], object))
    check(found, "b", np.array([[1], [2]], np.uint8))


@pytest.mark.parametrize("key", ["instances", "inputs"])
def test_binary_values(key):
    values = [b"\0\xff", b"", b"abcd"]
    encoded = [{"b64": base64.b64encode(value).decode()} for value in values]
    check(arrays({key: encoded}, x="string"), "x", texts(*values))
    # As `base64` writes it, without padding, and with that of other programs.
    long = bytes(range(256))
    for text in (
        base64.encodebytes(long).decode(),
        base64.b64encode(long).decode().rstrip("="),
        base64.b64encode(long).decode().replace("=", "."),
        "".join(f"{each} \t\v\f\r\n" for each in base64.b64encode(long).decode()),
    ):
        check(arrays({key: [{"b64": text}]}, x="string"), "x", texts(long))


@pytest.mark.parametrize("text", ["AA=", "A", "=", "AA==AA==", "A_-A"])
def test_base64_that_absl_refuses(text):
    with pytest.raises(ServingError, match="Unable to base64 decode"):
        arrays({"inputs": [{"b64": text}]}, x="string")


@pytest.mark.filterwarnings("error")
def test_numbers_that_json_or_float32_does_not_have():
    body = b'{"instances": [NaN, Infinity, -Infinity, 1e300, -1e300]}'
    found = arrays(body, x="float32")
    inf = np.inf
    check(found, "x", np.array([np.nan, inf, -inf, inf, -inf], np.float32))
    body = b'{"instances": [%b, 1e308]}' % (b"1" + b"0" * 308)
    check(arrays(body, x="float64"), "x", np.array([1e308, 1e308]))
    body = b'{"instances": [%b]}' % (b"1" + b"0" * 400)
    with pytest.raises(ServingError, match="Type: Number is not of expected type"):
        arrays(body, x="float64")


@pytest.mark.parametrize("dtype", ["string", "float32", "int64"])
def test_at_most_32_dimensions(dtype):
    value = b'"a"' if dtype == "string" else b"1"
    for key in (b"instances", b"inputs"):
        body = b'{"%b": %b%b%b}'
        found = arrays(body % (key, b"[" * 32, value, b"]" * 32), x=dtype)
        assert found["x"].shape == (1,) * 32
        for levels in (33, 500):
            for inner in (value, b""):
                with pytest.raises(ServingError) as caught:
                    arrays(body % (key, b"[" * levels, inner, b"]" * levels), x=dtype)
                expected = "makes a tensor of more than 32 dimensions"
                assert caught.value.message.endswith(expected)
                assert len(caught.value.message) < 500


STRING = MappingProxyType({"x": "string"})
FLOAT = MappingProxyType({"x": "float32"})
INT = MappingProxyType({"x": "int32"})
TWO = MappingProxyType({"x": "string", "y": "string"})
FAILED = (
    r"Failed to process element: {} of 'instances' list\. Error: INVALID_ARGUMENT: "
)


def refused_documents():
    """Returns bodies with other members or shapes: body, dtypes, pattern of message."""
    return (
        (b"", STRING, "JSON Parse error: Expecting value: line 1 column 1"),
        (b"[1]", STRING, r"JSON Value: \[1\] Is not object"),
        ({}, STRING, "Missing 'inputs' or 'instances' key"),
        ({"signature_name": 1}, STRING, ".*'signature_name' key must be a string"),
        ({"instances": [], "inputs": []}, STRING, ".*only one of 'inputs' or"),
        ({"instances": []}, STRING, ".*No values in 'instances' array"),
        ({"instances": "a"}, STRING, ".*Expecting 'instances' to be an list/array"),
        ({"instances": ["a", {"x": "b"}]}, STRING, "Expecting value/list but got"),
        ({"instances": [{"x": "b"}, "a"]}, STRING, "Expecting object but got list at"),
        (
            {"instances": [[1, 2], [3, 4], [5, 6, 7]]},
            INT,
            FAILED.format(2) + "Expecting tensor size: 2 but got: 3$",
        ),
        (
            {"instances": [[[1, 2], [3, 4], [5, 6]], [[1, 2, 3], [4, 5, 6]]]},
            INT,
            FAILED.format(1) + r"Expecting shape \[3,2\] but got: \[2,3\]$",
        ),
        (
            {"instances": [{"a": "x", "b": [1]}, {"a": "y", "b": []}]},
            {"a": "string", "b": "int32"},
            FAILED.format("1 key: b") + "Expecting tensor size: 1 but got: 0$",
        ),
        (
            {"instances": [["a"], ["b", ["c"]]]},
            STRING,
            FAILED.format(1) + "Encountered list at unexpected level: 1 expected < 1$",
        ),
        (
            {"inputs": [["a"], "b"]},
            STRING,
            'JSON Value: "b" found at incorrect level: 2 in the JSON DOM. Expected at '
            "level: 2$",
        ),
        (
            {"inputs": [["a"], ["b", "c"]]},
            STRING,
            "Encountered list at unexpected size: 2 at level: 1 expected size: 1$",
        ),
    )


def refused_values():
    """Returns bodies with other names or types, as `refused_documents` does."""
    return (
        (
            {"instances": [{"y": "b"}]},
            STRING,
            FAILED.format("0 key: y") + "JSON object: does not have named input: y$",
        ),
        ({"instances": [{}]}, STRING, ".*keys must be equal to: x"),
        ({"instances": ["a"]}, TWO, "instances is a plain list"),
        ({"inputs": ["a"]}, TWO, "inputs is a plain value/list"),
        ({"inputs": {"x": "a"}}, TWO, "Missing named input: y"),
        ({"instances": ["a"]}, {}, "Failed to get input map for signature: DEFAULT"),
        (
            {"instances": ["a", None]},
            STRING,
            FAILED.format(1)
            + "JSON Value: null Type: Null is not of expected type: string$",
        ),
        ({"instances": ["x"]}, FLOAT, '.*Value: "x" Type: String is not .* float'),
        ({"instances": [True]}, FLOAT, ".*Value: true Type: True is not of expected"),
        ({"instances": [{"b64": "AA"}]}, FLOAT, ".*Type: Object is not of expected"),
        ({"instances": [1]}, STRING, ".*Value: 1 Type: Number is not .* string"),
        ({"instances": [1.0]}, INT, ".*is not of expected type: int32"),
        ({"instances": [2**31]}, INT, ".*is not of expected type: int32"),
        ({"instances": [-1]}, {"x": "uint64"}, ".*is not of expected type: uint64"),
        ({"instances": [1]}, {"x": "bool"}, ".*is not of expected type: bool"),
        ({"inputs": [{"b64": "AA", "c": 1}]}, STRING, ".*not formatted correctly for"),
        *(
            (
                {"inputs": [1]},
                {"x": dtype},
                f"Conversion of JSON Value: 1 to type: {name}$",
            )
            for dtype, name in (
                ("complex64", "complex64"),
                ("float16", "half"),
                ("bfloat16", "bfloat16"),
                ("uint16", "uint16"),
            )
        ),
    )


@pytest.mark.parametrize(
    ("body", "dtypes", "message"),
    (*refused_documents(), *refused_values()),
)
def test_refusals(body, dtypes, message):
    with pytest.raises(ServingError) as caught:
        arrays(body, **dtypes)
    assert caught.value.code.name in ("INVALID_ARGUMENT", "UNIMPLEMENTED")
    assert re.match(message, caught.value.message), caught.value.message
    assert len(caught.value.message) < 1000


def test_the_signature_is_looked_up_before_the_tensors():
    """Since of a model that is not there, no tensors are right or wrong."""
    for document in ({}, {"instances": []}, {"instances": [1], "inputs": [1]}):
        body = parse_body(json.dumps({"signature_name": "a", **document}).encode())
        assert body.signature_name == "a"
        with pytest.raises(ServingError, match=r"get input map for signature: a$"):
            to_request(body, {})


def response(**outputs):
    message = predict_pb2.PredictResponse()
    for name, value in outputs.items():
        message.outputs[name].CopyFrom(tf.make_tensor_proto(value))
    return message


def test_answers_by_rows_and_by_columns():
    one = response(y=[["ä", "b"], ["c", "d"]])
    assert json.loads(from_response(one, True)) == {
        "predictions": [["ä", "b"], ["c", "d"]]
    }
    assert json.loads(from_response(one, False)) == {
        "outputs": [["ä", "b"], ["c", "d"]]
    }
    two = response(y=[1, 2], z=[[True], [False]])
    assert json.loads(from_response(two, True)) == {
        "predictions": [{"y": 1, "z": [True]}, {"y": 2, "z": [False]}]
    }
    assert json.loads(from_response(two, False)) == {
        "outputs": {"y": [1, 2], "z": [[True], [False]]}
    }
    none = response(y=np.zeros([0, 2]), z=np.zeros([0], np.int32))
    assert json.loads(from_response(none, True)) == {"predictions": []}


def test_numbers_are_the_shortest_that_are_read_as_the_same():
    rng = np.random.default_rng(1)
    values = np.exp(rng.uniform(-80, 80, 5000)) * rng.choice([-1, 1], 5000)
    for dtype in (np.float32, np.float64):
        array = values.astype(dtype)
        text = from_response(response(y=array), True)
        np.testing.assert_array_equal(
            np.array(json.loads(text)["predictions"], dtype), array
        )
    text = from_response(response(y=np.array([0.1, 3, -0.0], np.float32)), True)
    assert text == b'{"predictions": [0.1, 3.0, -0.0]}'
    text = from_response(response(y=np.array([9e6, 1e-7], np.float32)), True)
    assert text == b'{"predictions": [9000000.0, 1e-07]}'
    text = from_response(response(y=np.array([np.nan, np.inf, -np.inf])), True)
    assert text == b'{"predictions": [NaN, Infinity, -Infinity]}'


def test_bytes_leave_as_they_came_or_in_base64():
    raw = from_response(response(y=np.array([b"\xff\0"], object)), True)
    assert raw == b'{"predictions": ["\xff\\u0000"]}'
    encoded = from_response(response(y_bytes=np.array([b"\xff\0"], object)), False)
    assert json.loads(encoded) == {"outputs": [{"b64": "/wA="}]}


def test_outputs_without_rows_are_refused_in_row_format():
    scalar = response(y=1.5)
    assert json.loads(from_response(scalar, False)) == {"outputs": 1.5}
    with pytest.raises(ServingError, match="Tensor name: y has no shape information"):
        from_response(scalar, True)
    with pytest.raises(ServingError, match="z has inconsistent batch size: 3 expect"):
        from_response(response(y=[1, 2], z=[1, 2, 3]), True)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("complex64", "complex64"),
        ("complex128", "complex128"),
        ("float16", "half"),
        ("bfloat16", "bfloat16"),
        ("uint16", "uint16"),
        ("quint8", "quint8"),
    ],
)
def test_outputs_of_types_that_json_does_not_have(dtype, name):
    outputs = {"y": tf.make_tensor_proto(np.ones(2, "uint8"), "uint8")}
    outputs["y"].dtype = tf.as_dtype(dtype).as_datatype_enum
    answer = predict_pb2.PredictResponse(outputs=outputs)
    for by_rows in (True, False):
        with pytest.raises(ServingError) as caught:
            from_response(answer, by_rows)
        expected = f"Failed to write JSON value for tensor type: {name}"
        assert caught.value.message == expected
        assert caught.value.code.name == "INVALID_ARGUMENT"
