"""Models of ONNX, written without its package: a few nodes, in the wire format.

Source: onnx/onnx.proto3, ONNX 1.13 (opset 18).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_IR_VERSION, _OPSET = 8, 18
# TensorProto.DataType
_TYPES: tuple[tuple[str, int], ...] = (("float32", 1), ("int64", 7), ("bool", 9))
_VARINT, _BYTES = 0, 2


class Node(NamedTuple):
    """One operation.

    Attributes:
        op: Its name, such as "Equal".
        inputs: Names of its inputs.
        output: Name of its output.
        attributes: Whole numbers by name.
    """

    op: str
    inputs: Sequence[str]
    output: str
    attributes: Mapping[str, int] = {}


class Graph(NamedTuple):
    """A function of tensors.

    Attributes:
        nodes: Operations in their order.
        constants: Arrays by name.
        inputs: Type and number of axes of each input, by name.
        outputs: The same of the outputs.
    """

    nodes: Sequence[Node]
    constants: Mapping[str, np.ndarray]
    inputs: Mapping[str, tuple[str, int]]
    outputs: Mapping[str, tuple[str, int]]


def data_type(name: str) -> int:
    """Returns ONNX's number of a type of NumPy."""
    return dict(_TYPES)[name]


def onnx_bytes(graph: Graph, metadata: Mapping[str, str]) -> bytes:
    """Returns the content of a file `.onnx`, with texts by name beside the graph."""
    parts = [
        _number(1, _IR_VERSION),
        _text(2, "t2t_keras"),
        _field(7, _graph_bytes(graph)),
        _field(8, _text(1, "") + _number(2, _OPSET)),
        *(_field(14, _text(1, key) + _text(2, each)) for key, each in metadata.items()),
    ]
    return b"".join(parts)


def _graph_bytes(graph: Graph) -> bytes:
    parts = [
        *(_field(1, _node_bytes(node)) for node in graph.nodes),
        _text(2, "graph"),
        *(_field(5, _array_bytes(*item)) for item in graph.constants.items()),
        *(_field(11, _value_bytes(*item)) for item in graph.inputs.items()),
        *(_field(12, _value_bytes(*item)) for item in graph.outputs.items()),
    ]
    return b"".join(parts)


def _node_bytes(node: Node) -> bytes:
    attributes = (
        # AttributeProto: name, i, and the type INT.
        _field(5, _text(1, name) + _number(3, value) + _number(20, 2))
        for name, value in node.attributes.items()
    )
    inputs = (_text(1, name) for name in node.inputs)
    return _join(inputs, [_text(2, node.output), _text(4, node.op)], attributes)


def _array_bytes(name: str, array: np.ndarray) -> bytes:
    dims = (_number(1, size) for size in array.shape)
    kind = _number(2, data_type(array.dtype.name))
    return _join(dims, [kind, _text(8, name), _field(9, array.tobytes())])


def _value_bytes(name: str, kind: tuple[str, int]) -> bytes:
    dtype, axes = kind
    # A size that varies has a name.
    sizes = (_field(1, _text(2, f"{name}_{axis}")) for axis in range(axes))
    tensor = _number(1, data_type(dtype)) + _field(2, b"".join(sizes))
    return _text(1, name) + _field(2, _field(1, tensor))


def _join(*parts: Iterable[bytes]) -> bytes:
    return b"".join(each for part in parts for each in part)


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: Any) -> bytes:
    value &= 2**64 - 1
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
