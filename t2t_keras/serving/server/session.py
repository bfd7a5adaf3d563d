"""TensorFlow 1 session of a SavedModel, as servers in C++ run it.

Never `tf.saved_model.load`: it binds variables by object, and so hides faults of an
export that every real server would meet. Python's own checks of what is fed are left
out for the same reason: TensorFlow's runtime is what answers.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session

from t2t_keras.serving.server.errors import (
    ServingError,
    deadline_exceeded,
    failed_precondition,
    from_exception,
    invalid_argument,
    not_found,
)

try:
    import tensorflow_text  # registers the tokenizer's ops
except ImportError:
    tensorflow_text = None  # models of ids need none

GRAPH_FILES = ("saved_model.pb", "saved_model.pbtxt")

# A loop holds its thread until it ends. With one thread per core, a translation on a
# machine with one core would keep the server from loading a version.
_FEWEST_THREADS = 4


class RunFn(Protocol):
    """Function that runs a part of a graph: of a session, or one that batches."""

    def __call__(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_seconds: float | None,
    ) -> list[np.ndarray]:
        """Returns the tensors named by `fetches`, in their order."""
        ...


def session_config(intra_op: int = 0, inter_op: int = 0) -> tf.compat.v1.ConfigProto:
    """Returns the configuration of sessions that share their threads.

    Args:
        intra_op: Threads within an op; 0 for one for each core.
        inter_op: Threads between ops, which is how many loops run at a time in all
            sessions together; 0 for one for each core, and four at least.
    """
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=intra_op)
    threads = inter_op or max(len(os.sched_getaffinity(0)), _FEWEST_THREADS)
    # Named, they are shared by all sessions; unnamed, each would have its own.
    config.session_inter_op_thread_pool.add(
        num_threads=threads, global_name=f"models_{threads}"
    )
    return config


class ModelSession:
    """A SavedModel, loaded with the tag "serve"; may be run by several threads.

    Args:
        directory: Directory of the version.
        config: Threads of the session; `None` for TensorFlow's default.

    Raises:
        ServingError: If it cannot be loaded.
    """

    def __init__(self, directory: Path, config: tf.compat.v1.ConfigProto | None = None):
        self._graph = tf.Graph()
        self._session = tf.compat.v1.Session(
            graph=self._graph, config=config or session_config()
        )
        try:
            with self._graph.as_default():
                meta_graph = tf.compat.v1.saved_model.loader.load(
                    self._session, ["serve"], str(directory)
                )
            self.signatures = dict(meta_graph.signature_def)
            self._tensors = {
                info.name: self._graph.get_tensor_by_name(info.name)
                for contract in self.signatures.values()
                for info in [*contract.inputs.values(), *contract.outputs.values()]
                if ":" in info.name  # an operation that initializes has no tensor
            }
        except Exception as error:
            self._session.close()
            raise _load_error(error) from error

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_seconds: float | None = None,
    ) -> list[np.ndarray]:
        """Returns the fetched tensors of one run.

        Args:
            feeds: Tensor names of signatures, and their values.
            fetches: Tensor names of signatures.
            timeout_seconds: Time after which the runtime stops; None for no limit.

        Raises:
            ServingError: As the runtime has it: another type, a failed assertion,
                a deadline.
        """
        options = tf.compat.v1.RunOptions()
        if timeout_seconds is not None:
            if timeout_seconds <= 0:
                raise deadline_exceeded()
            options.timeout_in_ms = max(int(timeout_seconds * 1000), 1)
        tensors = self._tensors
        for name in fetches:
            if name not in tensors:
                raise invalid_argument(f"FetchOutputs {name}: output index too large")
        fed = {tensors[name]._as_tf_output(): feeds[name] for name in feeds}
        fetched = [tensors[name]._as_tf_output() for name in fetches]
        buffer = pywrap_tf_session.TF_NewBufferFromString(options.SerializeToString())
        try:
            fetched_values = pywrap_tf_session.TF_SessionRun_wrapper(
                self._session._session, buffer, fed, fetched, [], None
            )
        except tf.errors.OpError as error:
            raise from_exception(error) from error
        except TypeError as error:
            # NumPy dtype unsupported by TensorFlow.
            raise invalid_argument(str(error)) from error
        finally:
            pywrap_tf_session.TF_DeleteBuffer(buffer)
        return [
            np.asarray(value, object if tensors[name].dtype == tf.string else None)
            for name, value in zip(fetches, fetched_values, strict=True)
        ]

    def close(self) -> None:
        """Frees the variables; running requests are canceled."""
        self._session.close()


def disable_xla() -> None:
    """Has TensorFlow refuse to compile, in this process and for good.

    TensorFlow Serving does the same unless it is started with a flag for XLA: an
    export that needs the compiler answers "XLA compilation disabled".
    """
    library = Path(tf.__file__).parent / "libtensorflow_cc.so.2"
    # The mangled name of tensorflow::DisableXlaCompilation().
    ctypes.CDLL(str(library))["_ZN10tensorflow21DisableXlaCompilationEv"]()


def _load_error(error: Exception) -> ServingError:
    if tensorflow_text is None and "Op type not registered" in str(error):
        return failed_precondition(
            "An export of text needs the package tensorflow-text, which cannot be "
            f"imported. Install it: pip install tensorflow-text. {error}"
        )
    if isinstance(error, ServingError | tf.errors.OpError):
        return from_exception(error)
    if isinstance(error, OSError):
        return not_found(str(error))
    return invalid_argument(f"{type(error).__name__}: {error}")
