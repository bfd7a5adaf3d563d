"""Asks a SavedModel as a server would, before a server sees it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from t2t_keras.errors import UserError
from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.serving.export.graph_check import signatures_of
from t2t_keras.serving.export.requests import Request, example_request, read_warm_up
from t2t_keras.text.vocabulary import SubwordVocabulary

# An empty text and one that is not; and nothing at all.
_BATCHES = (("", "x"), ())


class ServedSession:
    """A SavedModel in a session of TensorFlow 1, which is what servers use.

    `tf.saved_model.load` would not do: it binds variables by object, and so hides a
    variable that a session would find uninitialized.

    Attributes:
        signatures: SignatureDef of each signature, by name.
    """

    def __init__(self, session: tf.compat.v1.Session, meta_graph: Any):
        self._session = session
        self.signatures = signatures_of(meta_graph)
        self._calls: dict[str, Callable[..., Sequence[np.ndarray]]] = {}

    def ask(self, request: Request) -> Mapping[str, np.ndarray]:
        """Returns the outputs by name.

        The tensors reach the graph unchecked, as a server's do; a missing one is the
        signature's default.

        Raises:
            tf.errors.OpError: If the graph fails.
        """
        definition = self.signatures[request.signature_name]
        given = {
            **{name: tf.make_ndarray(v) for name, v in definition.defaults.items()},
            **request.inputs,
        }
        values = self._call_of(request.signature_name)(
            *(given[name] for name in definition.inputs)
        )
        return dict(zip(definition.outputs, values, strict=True))

    def _call_of(self, name: str) -> Callable[..., Sequence[np.ndarray]]:
        """Returns what runs a signature, whose graph is optimised only once."""
        if name not in self._calls:
            definition = self.signatures[name]
            options = config_pb2.CallableOptions(
                feed=[info.name for info in definition.inputs.values()],
                fetch=[info.name for info in definition.outputs.values()],
            )
            # Not `run`, whose own checks of shapes would answer in the graph's place.
            call = self._session._make_callable_from_options(options)
            self._calls[name] = call
        return self._calls[name]


@contextmanager
def served_session(directory: Path) -> Iterator[ServedSession]:
    """Yields a SavedModel, loaded as a server loads it."""
    graph = tf.Graph()
    session = tf.compat.v1.Session(graph=graph)
    try:
        with graph.as_default():
            load = tf.compat.v1.saved_model.loader.load
            served = ServedSession(session, load(session, ["serve"], str(directory)))
        yield served
    finally:
        session.close()


def validate(directory: Path, vocabulary: SubwordVocabulary) -> None:
    """Raises `UserError` unless each signature, and each warm-up, gets an answer.

    Args:
        directory: Of the SavedModel, its warm-up requests written.
        vocabulary: Of the export.
    """
    requests = list(read_warm_up(directory))
    # The tokenizer says something about its model when it is first used.
    with quiet_start_up(), served_session(directory) as served:
        for name, definition in served.signatures.items():
            for texts in _BATCHES:
                requests.append(
                    example_request(name, definition.inputs.keys(), texts, vocabulary)
                )
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
    """Raises `UserError` if an output has not as many rows as were asked for."""
    (rows,) = {len(value) for value in request.inputs.values()}
    wrong = {name: value.shape for name, value in answer.items() if len(value) != rows}
    if wrong:
        raise UserError(
            f"The export gave an answer of another size: signature "
            f"{request.signature_name} was asked for {rows} rows and gave {wrong}. A "
            "server could not take a batch apart."
        )
