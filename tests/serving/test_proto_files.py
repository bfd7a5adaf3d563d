"""Our messages have the fields of TensorFlow Serving's."""

import pytest
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2

from t2t_keras.serving.proto_files import load_messages

OURS = load_messages("prediction_service.proto", "t2t_keras.serving")
PAIRS = (
    (OURS["PredictRequest"], predict_pb2.PredictRequest),
    (OURS["PredictResponse"], predict_pb2.PredictResponse),
)


def kind(field):
    names = {
        value: name.removeprefix("TYPE_").lower()
        for name, value in type(field).__dict__.items()
        if name.startswith("TYPE_")
    }
    return names[field.type]


def is_map(field):
    return kind(field) == "message" and field.message_type.GetOptions().map_entry


def assert_same_fields(ours, real):
    for field in ours.fields:
        other = real.fields_by_name[field.name]
        facts = [
            (each.number, each.type, each.is_repeated, is_map(each), each.is_packed)
            for each in (field, other)
        ]
        assert facts[0] == facts[1], field.full_name
        oneofs = [
            each.containing_oneof and each.containing_oneof.name
            for each in (field, other)
        ]
        assert oneofs[0] == oneofs[1], field.full_name
        if kind(field) == "message":
            assert_same_fields(field.message_type, other.message_type)


@pytest.mark.parametrize(("ours", "real"), PAIRS)
def test_each_field_is_that_of_tensorflow_serving(ours, real):
    assert_same_fields(ours.DESCRIPTOR, real.DESCRIPTOR)
    assert ours.DESCRIPTOR.full_name == f"t2t_keras.serving.{real.DESCRIPTOR.name}"


def test_the_numbers_of_dtypes_are_those_of_tensorflow():
    for dtype in OURS["DataType"]:
        assert types_pb2.DataType.Value(dtype.name) == dtype
