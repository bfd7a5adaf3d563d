"""Our messages are those of the .proto files, with TensorFlow Serving's fields."""

import subprocess
import sys
from pathlib import Path

import grpc_tools
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2

from t2t_keras.serving import proto_files
from t2t_keras.serving.client.tensors import DataType, PredictRequest, PredictResponse

PAIRS = (
    (PredictRequest, predict_pb2.PredictRequest),
    (PredictResponse, predict_pb2.PredictResponse),
)


def test_the_descriptors_are_those_of_the_proto_files(tmp_path):
    folder = Path(proto_files.__file__).with_name("protos")
    described, compiled = folder / "descriptors.binpb", tmp_path / "compiled"
    # As a program: in one process with TensorFlow, the compiler crashes.
    program = f"{grpc_tools.__name__}.protoc"
    command = [sys.executable, "-m", program, f"-I{folder}", "--include_imports"]
    command += [f"--descriptor_set_out={compiled}", *sorted(folder.glob("*.proto"))]
    subprocess.run(command, check=True)
    ours, new = (
        FileDescriptorSet.FromString(each.read_bytes()).file
        for each in (described, compiled)
    )
    assert list(ours) == list(new), f"compile again: {proto_files.__doc__}"


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


def test_the_numbers_of_dtypes_are_those_of_tensorflow():
    for dtype in DataType:
        assert types_pb2.DataType.Value(dtype.name) == dtype
