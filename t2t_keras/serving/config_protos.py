"""Configuration files of TensorFlow Serving: reader, and messages its package lacks.

tensorflow-serving-api has the requests and answers, but not its batching
and TLS configurations. Text files written for the real messages are read by these.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)

from t2t_keras.errors import UserError

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = MappingProxyType(
    {
        "bool": _FIELD.TYPE_BOOL,
        "int64": _FIELD.TYPE_INT64,
        "string": _FIELD.TYPE_STRING,
    }
)
_WRAPPERS = "google/protobuf/wrappers.proto"


def read_text_proto(path: str | Path, message: Any) -> Any:
    """Fills `message` from a text file, and returns it.

    Raises:
        UserError: If the file cannot be read as such a message.
    """
    try:
        return text_format.Parse(Path(path).read_text(encoding="utf-8"), message)
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise UserError(
            f"{path} cannot be read as a text protocol buffer of type "
            f"{message.DESCRIPTOR.full_name}: {error}"
        ) from error


def batching_parameters() -> Any:
    """Returns an empty `tensorflow.serving.BatchingParameters`."""
    return _message(
        "tensorflow.serving.BatchingParameters",
        {
            "max_batch_size": (1, "Int64Value"),
            "batch_timeout_micros": (2, "Int64Value"),
            "max_enqueued_batches": (3, "Int64Value"),
            "num_batch_threads": (4, "Int64Value"),
            "thread_pool_name": (5, "StringValue"),
            "allowed_batch_sizes": (6, "repeated int64"),
            "pad_variable_length_inputs": (7, "bool"),
            "enable_large_batch_splitting": (8, "BoolValue"),
            "max_execution_batch_size": (9, "Int64Value"),
        },
    )


def ssl_config() -> Any:
    """Returns an empty `tensorflow.serving.SSLConfig`."""
    return _message(
        "tensorflow.serving.SSLConfig",
        {
            "server_key": (1, "string"),
            "server_cert": (2, "string"),
            "custom_ca": (3, "string"),
            "client_verify": (4, "bool"),
        },
    )


def _message(full_name: str, fields: Mapping[str, tuple[int, str]]) -> Any:
    """Builds a message class in a pool of its own, where no real one can clash."""
    package, _, name = full_name.rpartition(".")
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{full_name}.proto",
        package=package,
        syntax="proto3",
        dependency=[_WRAPPERS],
    )
    message = file.message_type.add(name=name)
    for field_name, (number, kind) in fields.items():
        repeated = kind.startswith("repeated ")
        kind = kind.removeprefix("repeated ")
        field = message.field.add(
            name=field_name,
            number=number,
            label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL,
        )
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type = _FIELD.TYPE_MESSAGE
            field.type_name = f".google.protobuf.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))()
