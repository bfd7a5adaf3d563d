"""Our messages, compared with TensorFlow Serving's: descriptions and bytes."""

import random
import struct
from types import MappingProxyType

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2, types_pb2
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


@given(SEEDS)
def test_damaged_bytes_are_refused_only_where_tensorflow_serving_refuses_them(seed):
    generator = random.Random(seed)
    for ours, real in PAIRS:
        message = real()
        fill(message, generator)
        data = bytearray(message.SerializeToString())
        for _ in range(generator.randrange(4) if data else 0):
            data[generator.randrange(len(data))] = generator.randrange(256)
        damaged = bytes(data[: generator.randrange(len(data) + 1)])
        try:
            expected = real.FromString(damaged)
        except DecodeError:
            continue
        parsed = ours.FromString(damaged)
        # As text, because a number that is not a number is not equal to itself.
        assert repr(values(parsed, ours.DESCRIPTOR)) == repr(
            values(expected, ours.DESCRIPTOR)
        )


def varint(number):
    """Returns the bytes of a number in base 128, by the rules of the wire format."""
    number %= 2**64
    digits = [number >> shift & 127 for shift in range(0, 64, 7)]
    while len(digits) > 1 and not digits[-1]:
        digits.pop()
    return bytes([digit | 128 for digit in digits[:-1]] + digits[-1:])


@pytest.mark.parametrize("name", ["float_val", "int_val", "int64_val", "bool_val"])
def test_repeated_numbers_are_read_packed_and_unpacked(name):
    number = tensor_pb2.TensorProto.DESCRIPTOR.fields_by_name[name].number
    numbers = [0, 1, 0, 1] if name == "bool_val" else [3, -2, 0, 2**31 - 128]
    wire, encode = 0, varint
    if name == "float_val":
        wire, encode = 5, lambda value: struct.pack("<f", value)
    encoded = [encode(each) for each in numbers]
    unpacked = b"".join(varint(number << 3 | wire) + each for each in encoded)
    packed = varint(number << 3 | 2) + varint(len(b"".join(encoded)))
    for data in (unpacked, packed + b"".join(encoded), unpacked + unpacked):
        for kind_of_message in (OURS["TensorProto"], tensor_pb2.TensorProto):
            found = getattr(kind_of_message.FromString(data), name)
            assert list(found) == numbers * (len(found) // 4) and len(found)


def test_the_last_of_two_versions_counts():
    version = predict_pb2.PredictRequest()
    version.model_spec.version.value = 0
    label = predict_pb2.PredictRequest()
    label.model_spec.version_label = ""
    data = [each.SerializeToString() for each in (version, label)]
    for joined, choice in ((data, "version_label"), (data[::-1], "version")):
        for ours, real in PAIRS[:1]:
            found = [each.FromString(b"".join(joined)) for each in (ours, real)]
            choices = [each.model_spec.WhichOneof("version_choice") for each in found]
            assert choices == [choice, choice]
