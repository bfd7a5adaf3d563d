"""Validation of an export: ops of its graph, and test calls in a session."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, saved_model_pb2

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import name_in_errors
from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.serving.export.requests import (
    Request,
    example_request,
    read_warm_up,
    row_options,
)
from t2t_keras.text.vocabulary import Vocabulary

# Ops of TensorFlow Text in the export's tokenizer. Stock servers link both.
TOKENIZER_OPS = frozenset(
    {"SentencepieceOp", "SentencepieceTokenizeOp", "WordpieceTokenizeWithOffsets"}
)
# Core ops that call back into the Python process that created them.
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})
# File of a SavedModel with its graph.
_GRAPH = "saved_model.pb"

# Texts of test calls: an empty and a non-empty one; and an empty batch.
_BATCHES = (("", "x"), ())


def read_meta_graph(directory: Path) -> Any:
    """Returns the one MetaGraphDef of a SavedModel."""
    proto = saved_model_pb2.SavedModel()
    proto.ParseFromString((directory / _GRAPH).read_bytes())
    (meta_graph,) = proto.meta_graphs
    return meta_graph


def list_signatures(meta_graph: Any) -> dict[str, Any]:
    """Returns the SignatureDef of each signature by name, in order of names."""
    return {
        name: definition
        for name, definition in sorted(meta_graph.signature_def.items())
        if not name.startswith("__")  # initialization of the graph
    }


def check_graph(directory: Path, *, tokenizes: bool, xla: bool) -> None:
    """Raises `UserError` if a server may refuse the graph of a SavedModel.

    Args:
        directory: Directory of the SavedModel.
        tokenizes: Whether the graph may contain the tokenizer's ops.
        xla: Whether the graph may contain nodes that XLA must compile.
    """
    meta_graph = read_meta_graph(directory)
    allowed = TOKENIZER_OPS if tokenizes else frozenset()
    foreign = sorted(
        name
        for name in list_ops(meta_graph)
        if not _is_core(name) and name not in allowed
    )
    if foreign:
        raise UserError(
            f"The export needs ops that a server may not have: {', '.join(foreign)}. "
            "Allowed are TensorFlow's own and "
            f"{', '.join(sorted(allowed)) or 'no others'}."
        )
    compiled = sorted(set(_xla_nodes(meta_graph)))
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
    loaded_models = {model for model, _ in tokenizers}
    if len(loaded_models) < len(tokenizers) or not all(name for _, name in tokenizers):
        raise UserError(
            f"The export loads {len(tokenizers)} tokenizers of {len(loaded_models)} "
            "models, but each model may have only one, with a name of its own: several "
            "change each other's options."
        )


def list_ops(meta_graph: Any) -> set[str]:
    """Returns the names of all ops in a graph and its functions.

    `stripped_op_list` lacks ops that only a nested loop uses.
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


def _xla_nodes(meta_graph: Any) -> Iterator[str]:
    """Yields the functions and nodes that XLA must compile."""
    for function in meta_graph.graph_def.library.function:
        if function.attr["_XlaMustCompile"].b:
            yield function.signature.name
    for node in _nodes(meta_graph):
        if node.attr["_XlaMustCompile"].b:
            yield node.name


class ServedSession:
    """SavedModel in a session of TensorFlow 1, as in servers.

    `tf.saved_model.load` is not sufficient: it binds variables by object, and so hides
    a variable that is uninitialized in a session.

    Attributes:
        signatures: SignatureDef of each signature, by name.
    """

    def __init__(self, session: tf.compat.v1.Session, meta_graph: Any):
        self._session = session
        self.signatures = list_signatures(meta_graph)
        self._calls: dict[str, Callable[..., Sequence[np.ndarray]]] = {}

    def ask(self, request: Request) -> Mapping[str, np.ndarray]:
        """Returns the outputs by name.

        Tensors are passed to the graph unchecked, as in a server. Missing inputs get
        the signature's defaults.

        Raises:
            tf.errors.OpError: If the graph fails.
        """
        definition = self.signatures[request.signature_name]
        inputs = {
            **{name: tf.make_ndarray(v) for name, v in definition.defaults.items()},
            **request.inputs,
        }
        values = self._callable(request.signature_name)(
            *(inputs[name] for name in definition.inputs)
        )
        return dict(zip(definition.outputs, values, strict=True))

    def _callable(self, name: str) -> Callable[..., Sequence[np.ndarray]]:
        """Returns the function that runs a signature; its graph is optimized once."""
        if name not in self._calls:
            definition = self.signatures[name]
            options = config_pb2.CallableOptions(
                feed=[info.name for info in definition.inputs.values()],
                fetch=[info.name for info in definition.outputs.values()],
            )
            # `run` checks shapes by itself, before the graph could.
            call = self._session._make_callable_from_options(options)
            self._calls[name] = call
        return self._calls[name]


@contextmanager
def open_session(directory: Path, *, optimize: bool = True) -> Iterator[ServedSession]:
    """Yields a SavedModel that is loaded as in a server.

    Args:
        directory: Directory of the SavedModel.
        optimize: Whether TensorFlow optimizes the graph of a signature before its
            first call, which takes longer than a few calls.
    """
    graph = tf.Graph()
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = not optimize
    session = tf.compat.v1.Session(graph=graph, config=config)
    try:
        with tempfile.TemporaryDirectory() as folder, graph.as_default():
            if not optimize:
                _copy_with_config(directory, Path(folder), config)
                directory = Path(folder)
            load = tf.compat.v1.saved_model.loader.load
            served = ServedSession(session, load(session, ["serve"], str(directory)))
        yield served
    finally:
        session.close()


def _copy_with_config(directory: Path, copy: Path, config: Any) -> None:
    """Writes a SavedModel whose functions have another configuration.

    Each call of a function in a graph states how TensorFlow is to optimize it; the
    session's configuration is for the rest. The files beside the graph are linked.
    """
    proto = saved_model_pb2.SavedModel()
    for path in directory.resolve().iterdir():
        if path.name == _GRAPH:
            proto.ParseFromString(path.read_bytes())
        else:
            (copy / path.name).symlink_to(path)
    for meta_graph in proto.meta_graphs:
        for node in _nodes(meta_graph):
            if "config_proto" in node.attr:
                node.attr["config_proto"].s = config.SerializeToString()
    with name_in_errors(copy):
        (copy / _GRAPH).write_bytes(proto.SerializeToString())


def validate(directory: Path, vocabulary: Vocabulary) -> None:
    """Raises `UserError` if a test call or a warm-up request fails.

    Every signature is called, whether or not it is in the warm-up: with an empty batch
    and one of two, and with its options for each row as well as with their defaults.
    The directory has the SavedModel and its warm-up requests.
    """
    requests = list(read_warm_up(directory))
    # The tokenizer logs a line about its model when it is first used.
    with quiet_start_up(), open_session(directory, optimize=False) as served:
        for name, definition in served.signatures.items():
            names, options = definition.inputs.keys(), row_options(definition)
            for texts in _BATCHES:
                requests += [
                    example_request(name, names, texts, vocabulary, given)
                    for given in ({}, options)[: 2 if options else 1]
                ]
        for request in requests:
            try:
                answer = served.ask(request)
            except tf.errors.OpError as error:
                raise UserError(
                    "The export does not work in a server's session: signature "
                    f"{request.signature_name}: {error.message}"
                ) from error
            _check_sizes(request, answer)


def _check_sizes(request: Request, answer: Mapping[str, np.ndarray]) -> None:
    """Raises `UserError` if an output's rows are not those of the request."""
    (rows,) = {len(value) for value in request.inputs.values()}
    wrong = {name: value.shape for name, value in answer.items() if len(value) != rows}
    if wrong:
        raise UserError(
            "The export returned outputs of a wrong size: signature "
            f"{request.signature_name} expected {rows} rows. Received: {wrong}. A "
            "server could not split a batch."
        )
