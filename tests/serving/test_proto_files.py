"""Our messages, compared with TensorFlow Serving's: descriptions and bytes."""

import random
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2

from t2t_keras.serving.proto_files import load_messages

OURS = load_messages("prediction_service.proto", "t2t_keras.serving")
PAIRS = (
    (OURS["PredictRequest"], predict_pb2.PredictRequest),
    (OURS["PredictResponse"], predict_pb2.PredictResponse),
)
SEEDS = st.integers(0, 2**32)
TEXTS = ("", "a", "text", "größer 漢字 \U0001f642", "\x00", "x" * 300)
NUMBERS = MappingProxyType(
    {
        "int32": (0, 1, -1, 2**31 - 1, -(2**31)),
        "int64": (0, 1, -1, 2**63 - 1, -(2**63)),
        "uint32": (0, 2**32 - 1),
        "uint64": (0, 2**64 - 1),
        "float": (0.0, -0.0, 0.1, float("inf"), float("-inf")),
        "double": (0.0, 0.1, -1e300),
        "bool": (False, True),
        "enum": (0, 1, 7, 14, 9999, -1),
        "string": TEXTS,
        "bytes": (*(text.encode() for text in TEXTS), b"\xff\xfe", b"\x00" * 9),
    }
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


def fill(message, generator, depth=4):
    """Sets random fields to extreme values, later fields of a oneof too."""
    for field in message.DESCRIPTOR.fields:
        if generator.random() < 0.4 or (kind(field) == "message" and not depth):
            continue
        value = getattr(message, field.name)
        count = generator.choice((0, 1, 2, 9))
        if is_map(field):
            keys, inner = field.message_type.fields
            for _ in range(count):
                key = generator.choice(NUMBERS[kind(keys)])
                if kind(inner) == "message":
                    fill(value[key], generator, depth - 1)
                else:
                    value[key] = generator.choice(NUMBERS[kind(inner)])
        elif kind(field) == "message":
            if not field.is_repeated:
                value.SetInParent()
                fill(value, generator, depth - 1)
            for _ in range(count * field.is_repeated):
                fill(value.add(), generator, depth - 1)
        elif field.is_repeated:
            value.extend(generator.choices(NUMBERS[kind(field)], k=count))
        else:
            setattr(message, field.name, generator.choice(NUMBERS[kind(field)]))


def values(message, like):
    """Returns the values of the fields of the class `like`, with their presence."""
    found = {}
    for field in like.fields:
        value = getattr(message, field.name)
        if is_map(field):
            inner = field.message_type.fields_by_name["value"].message_type
            found[field.name] = {key: values(value[key], inner) for key in value}
        elif kind(field) == "message" and field.is_repeated:
            found[field.name] = [values(each, field.message_type) for each in value]
        elif kind(field) == "message":
            there = message.HasField(field.name)
            found[field.name] = values(value, field.message_type) if there else None
        elif field.is_repeated:
            found[field.name] = list(value)
        else:
            found[field.name] = value
    for oneof in like.oneofs:
        found[oneof.name] = message.WhichOneof(oneof.name)
    return found


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


@given(SEEDS)
def test_what_tensorflow_serving_writes_is_read_and_kept(seed):
    for ours, real in PAIRS:
        message = real()
        fill(message, random.Random(seed))
        parsed = ours.FromString(message.SerializeToString())
        assert values(parsed, ours.DESCRIPTOR) == values(message, ours.DESCRIPTOR)
        # Fields that we do not know travel along.
        assert real.FromString(parsed.SerializeToString()) == message


@given(SEEDS)
def test_what_we_write_is_read_by_tensorflow_serving(seed):
    for ours, real in PAIRS:
        message = ours()
        fill(message, random.Random(seed))
        parsed = real.FromString(message.SerializeToString())
        assert values(parsed, ours.DESCRIPTOR) == values(message, ours.DESCRIPTOR)
        again = ours.FromString(parsed.SerializeToString())
        assert values(again, ours.DESCRIPTOR) == values(message, ours.DESCRIPTOR)
