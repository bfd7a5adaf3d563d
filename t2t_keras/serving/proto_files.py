r"""Message classes of the .proto files in `protos/`, made at run time.

Generated code would tie the package to one version of protobuf, and TensorFlow
Serving's own needs TensorFlow. Programs in other languages use the same files. After a
change of them, in their folder:

    python -m grpc_tools.protoc -I. --include_imports \
        --descriptor_set_out=descriptors.binpb *.proto
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, message_factory

_DESCRIPTORS = Path(__file__).with_name("protos") / "descriptors.binpb"


def load_messages() -> Mapping[str, Any]:
    """Returns the classes of all messages by their full names.

    They are in a pool of their own, so that TensorFlow Serving's, which have the same
    names, cannot clash with them.
    """
    described = descriptor_pb2.FileDescriptorSet.FromString(_DESCRIPTORS.read_bytes())
    return message_factory.GetMessages(described.file)
