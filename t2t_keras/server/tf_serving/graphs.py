"""Graphs of SavedModels: their inputs, and what XLA compiles of them."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

GRAPH_FILES = ("saved_model.pb", "saved_model.pbtxt")

# Attribute of an op that XLA must compile.
_XLA = "_XlaMustCompile"

MetaGraphDef = Any


def read_meta_graph(directory: Path, tags: Sequence[str]) -> MetaGraphDef:
    """Returns the graph with these tags in a SavedModel's directory.

    Returns an empty one if there is none: TensorFlow's loader says what is wrong.
    """
    model = saved_model_pb2.SavedModel()
    binary, text = (directory / name for name in GRAPH_FILES)
    if binary.exists():
        model.ParseFromString(binary.read_bytes())
    elif text.exists():
        text_format.Parse(text.read_text(encoding="utf-8"), model)
    for meta_graph in model.meta_graphs:
        if set(meta_graph.meta_info_def.tags) == set(tags):
            return meta_graph
    return tf.compat.v1.MetaGraphDef()


def shapeless_inputs(meta_graph: MetaGraphDef) -> dict[str, tf.Tensor]:
    """Returns a placeholder of any shape for each one that signatures name.

    Python's session compares what is fed with the shape of a placeholder, which the
    runtime leaves to the ops of the graph.
    """
    placeholders = {
        f"{node.name}:0"
        for node in meta_graph.graph_def.node
        if node.op == "Placeholder"
    }
    return {
        info.name: tf.compat.v1.placeholder(tf.as_dtype(info.dtype))
        for contract in meta_graph.signature_def.values()
        for info in contract.inputs.values()
        if info.name in placeholders
    }


def compiled_outputs(meta_graph: MetaGraphDef) -> set[str]:
    """Returns the names of signatures' outputs that need XLA.

    Of a function that may be called for an output, every op counts.
    """
    graph = meta_graph.graph_def
    nodes = {node.name: node for node in graph.node}
    functions = {
        each.signature.name: _uses(each.node_def) for each in graph.library.function
    }

    def is_compiled(tensor_name: str) -> bool:
        names = _reachable(
            [tensor_name.partition(":")[0]],
            lambda name: [_node_name(each) for each in nodes[name].input],
        )
        used = _uses(nodes[name] for name in names)
        return _XLA in _reachable(used, lambda name: functions.get(name, ()))

    return {
        info.name
        for contract in meta_graph.signature_def.values()
        for info in contract.outputs.values()
        if ":" in info.name and is_compiled(info.name)
    }


def _node_name(node_input: str) -> str:
    """Returns the name of the op that gives a tensor, or that an op waits for."""
    return node_input.removeprefix("^").partition(":")[0]


def _uses(nodes: Iterable[Any]) -> set[str]:
    """Returns the names of what ops call: of functions, and `_XLA` for the compiler."""
    used = set()
    for node in nodes:
        for name, value in node.attr.items():
            if name == _XLA and value.b:
                used.add(_XLA)
            used |= {each.name for each in (value.func, *value.list.func)}
    return used


def _reachable(
    names: Iterable[str], following: Callable[[str], Iterable[str]]
) -> set[str]:
    """Returns the names, those that follow from them, and so on."""
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += following(name)
    return found
