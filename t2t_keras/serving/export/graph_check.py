"""What may stand in an exported graph, read from the file itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from t2t_keras.errors import UserError

# What the export's tokenizer needs of TensorFlow Text. Stock servers link both.
TOKENIZER_OPS = frozenset({"SentencepieceOp", "SentencepieceTokenizeOp"})
# Core ops that call back into the Python process that made them.
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})


def read_meta_graph(directory: Path) -> Any:
    """Returns the one MetaGraphDef of a SavedModel."""
    proto = saved_model_pb2.SavedModel()
    proto.ParseFromString((directory / "saved_model.pb").read_bytes())
    (meta_graph,) = proto.meta_graphs
    return meta_graph


def signatures_of(meta_graph: Any) -> dict[str, Any]:
    """Returns the SignatureDef of each signature by name, in order of names."""
    return {
        name: definition
        for name, definition in sorted(meta_graph.signature_def.items())
        if not name.startswith("__")  # what initialises the graph
    }


def check_graph(directory: Path, *, tokenizes: bool, xla: bool) -> None:
    """Raises `UserError` if a server may refuse the graph of a SavedModel.

    Args:
        directory: Of the SavedModel.
        tokenizes: Whether the tokenizer's ops may be in it.
        xla: Whether nodes may ask to be compiled by XLA.
    """
    meta_graph = read_meta_graph(directory)
    allowed = TOKENIZER_OPS if tokenizes else frozenset()
    foreign = sorted(
        name
        for name in ops_of(meta_graph)
        if not _is_core(name) and name not in allowed
    )
    if foreign:
        raise UserError(
            f"The export needs ops that a server may not have: {', '.join(foreign)}. "
            "Allowed are TensorFlow's own and "
            f"{', '.join(sorted(allowed)) or 'no others'}."
        )
    compiled = sorted(set(_compiled_by_xla(meta_graph)))
    if compiled and not xla:
        raise UserError(
            "The export has nodes that XLA must compile, which a stock server refuses: "
            f"{', '.join(compiled[:5])}. Export with --xla for servers with XLA."
        )
    tokenizers = {
        (node.attr["model"].s, node.attr["shared_name"].s)
        for node in _nodes(meta_graph)
        if node.op == "SentencepieceOp"
    }
    if len(tokenizers) > 1:
        raise UserError(
            f"The export loads {len(tokenizers)} tokenizers; one is allowed, because "
            "several change one another's options."
        )


def ops_of(meta_graph: Any) -> set[str]:
    """Returns the names of all ops in a graph, those of its functions among them.

    Not its `stripped_op_list`, which leaves out what only a loop in a loop uses.
    """
    functions = {each.signature.name for each in meta_graph.graph_def.library.function}
    return {node.op for node in _nodes(meta_graph)} - functions


def _is_core(op: str) -> bool:
    """Returns whether an op is TensorFlow's own and needs no Python."""
    return hasattr(tf.raw_ops, op) and op not in PYTHON_OPS


def _nodes(meta_graph: Any) -> Iterator[Any]:
    yield from meta_graph.graph_def.node
    for function in meta_graph.graph_def.library.function:
        yield from function.node_def


def _compiled_by_xla(meta_graph: Any) -> Iterator[str]:
    """Yields the functions and nodes that ask for XLA."""
    for function in meta_graph.graph_def.library.function:
        if function.attr["_XlaMustCompile"].b:
            yield function.signature.name
    for node in _nodes(meta_graph):
        if node.attr["_XlaMustCompile"].b:
            yield node.name
