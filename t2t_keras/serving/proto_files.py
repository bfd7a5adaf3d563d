"""Message classes, made at run time from the .proto files in `protos/`.

Generated code would tie the package to one version of protobuf, and TensorFlow
Serving's own needs TensorFlow. Programs in other languages use the same files.
"""

import enum
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    wrappers_pb2,
)

_FOLDER = Path(__file__).with_name("protos")
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = MappingProxyType(
    {
        "bool": _FIELD.TYPE_BOOL,
        "bytes": _FIELD.TYPE_BYTES,
        "double": _FIELD.TYPE_DOUBLE,
        "float": _FIELD.TYPE_FLOAT,
        "int32": _FIELD.TYPE_INT32,
        "int64": _FIELD.TYPE_INT64,
        "string": _FIELD.TYPE_STRING,
    }
)


def load_messages(name: str, package: str) -> Mapping[str, Any]:
    """Returns the classes of the messages in a file, and its enums, by their names.

    They are in a pool of their own, so that no other description of the same messages
    in this process can clash with them.

    Args:
        name: Name of a file in `protos/`.
        package: Package of the messages, in place of the file's.
    """
    text = (_FOLDER / name).read_text(encoding="utf-8")
    file = _describe_file(text, name, package)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    described = pool.FindFileByName(name)
    return MappingProxyType(
        {
            key: message_factory.GetMessageClass(message)
            for key, message in described.message_types_by_name.items()
        }
        | {
            key: enum.IntEnum(key, [(each.name, each.number) for each in kind.values])
            for key, kind in described.enum_types_by_name.items()
        }
    )


def _describe_file(
    text: str, name: str, package: str
) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name=name,
        package=package,
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    scopes: list[Any] = [file]
    oneof: dict[str, int] = {}
    for words in _definitions(text):
        match words:
            case ["message", key]:
                messages = "message_type" if scopes[-1] is file else "nested_type"
                scopes.append(getattr(scopes[-1], messages).add(name=key))
            case ["enum", key]:
                scopes.append(scopes[-1].enum_type.add(name=key))
            case ["oneof", key]:
                oneof = {"oneof_index": len(scopes[-1].oneof_decl)}
                scopes[-1].oneof_decl.add(name=key)
            case ["}"] if oneof:
                oneof = {}
            case ["}"]:
                scopes.pop()
            case [key, number]:
                scopes[-1].value.add(name=key, number=int(number))
            case [*kind, key, number]:
                _add_field(scopes[-1], kind, name=key, number=int(number), **oneof)
    return file


def _definitions(text: str) -> Iterator[list[str]]:
    """Yields the words of each line that defines a message or an enum, or ends it.

    Our files have one statement a line, and services at the end.
    """
    for line in text.splitlines():
        words = re.findall(r"[\w.]+|}", line.partition("//")[0])
        if words[:1] == ["service"]:
            return
        if words and words[0] not in ("syntax", "package", "import", "option"):
            yield words


def _add_field(message: Any, kind: list[str], **facts: Any) -> None:
    """Adds a field, whose kind is its type, perhaps after "repeated" or "map"."""
    *label, type_name = kind
    if label and label[0] == "map":
        entry = message.nested_type.add(
            name="".join(map(str.capitalize, facts["name"].split("_"))) + "Entry"
        )
        entry.options.map_entry = True
        _add_field(entry, label[1:], name="key", number=1)
        _add_field(entry, [type_name], name="value", number=2)
        type_name = entry.name
    field = message.field.add(
        label=_FIELD.LABEL_REPEATED if label else _FIELD.LABEL_OPTIONAL, **facts
    )
    if type_name in _SCALARS:
        field.type = _SCALARS[type_name]
    else:
        # Whether it is a message or an enum, the pool finds out.
        field.type_name = type_name
