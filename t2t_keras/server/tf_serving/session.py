"""TensorFlow 1 session of a SavedModel, as servers in C++ run it.

Never `tf.saved_model.load`: it binds variables by object, and so hides faults of an
export that every real server would meet. Python's own checks of what is fed are left
out for the same reason: TensorFlow's runtime is what answers.
"""

import ctypes
import functools
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session

from t2t_keras.server.tf_serving.cancellation import StepCancellation
from t2t_keras.server.tf_serving.errors import (
    ServingError,
    deadline_exceeded,
    failed_precondition,
    from_exception,
    invalid_argument,
    not_found,
)
from t2t_keras.server.workers import CancelToken
from t2t_keras.serving.config_protos import read_text_proto

try:
    import tensorflow_text  # registers the tokenizer's ops
except ImportError:
    tensorflow_text = None  # models of ids need none

GRAPH_FILES = ("saved_model.pb", "saved_model.pbtxt")

# A loop holds its thread until it ends: with one thread per core, long translations
# would keep out short ones. With 16 threads on two cores, each takes 1.4 times as long.
_FEWEST_STEPS = 4
# Threads that steps leave free, for the messages that stop them.
_SPARE_THREADS = 2

# Values of `RunOptions.inter_op_thread_pool`. Messages that stop a step must not wait
# for a thread that another step occupies. With several devices TensorFlow takes the
# pool in any case.
SHARED_POOL, OWN_THREAD = 0, -1


class RunFn(Protocol):
    """Function that runs a part of a graph: of a session, or one that batches."""

    def __call__(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_seconds: float | None = None,
        cancel_token: CancelToken | None = None,
    ) -> list[np.ndarray]:
        """Returns the tensors named by `fetches`, in their order."""
        ...


def session_config(
    intra_op: int = 0,
    inter_op: int = 0,
    file: str = "",
    gpu_memory_fraction: float = 0.0,
) -> tf.compat.v1.ConfigProto:
    """Returns the configuration of sessions that share their threads.

    Args:
        intra_op: Threads within an op; 0 for one for each core.
        inter_op: Steps that a model runs at a time; 0 for one for each core, and 4 at
            least.
        file: File with a text `ConfigProto` to start from; "" for none.
        gpu_memory_fraction: Share of a GPU's memory that is taken at the start; 0 to
            take it as needed.

    Raises:
        UserError: If the file cannot be read.
    """
    config = tf.compat.v1.ConfigProto()
    if file:
        read_text_proto(file, config)
    else:
        # Its work at the first call of a signature is three times that of all others,
        # and exports are no faster for it.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.intra_op_parallelism_threads = (
        intra_op or config.intra_op_parallelism_threads
    )
    if gpu_memory_fraction:
        config.gpu_options.per_process_gpu_memory_fraction = gpu_memory_fraction
    if not config.session_inter_op_thread_pool:
        steps = inter_op or config.inter_op_parallelism_threads
        threads = steps or max(len(os.sched_getaffinity(0)), _FEWEST_STEPS)
        threads += _SPARE_THREADS
        # Named, they are shared by all sessions; unnamed, each would have its own.
        config.session_inter_op_thread_pool.add(
            num_threads=threads, global_name=f"models_{threads}"
        )
    return config


class ModelSession:
    """A SavedModel that is loaded; may be run by several threads.

    Args:
        directory: Directory of the version.
        config: Threads of the session; `None` for `session_config`'s defaults.
        tags: Tags of the graph to load.

    Raises:
        ServingError: If it cannot be loaded.
    """

    def __init__(
        self,
        directory: Path,
        config: tf.compat.v1.ConfigProto | None = None,
        tags: Sequence[str] = ("serve",),
    ):
        chosen: Any = session_config() if config is None else config
        threads = chosen.session_inter_op_thread_pool[0].num_threads
        steps = max(threads - _SPARE_THREADS, 1) if threads else _FEWEST_STEPS
        self._graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=self._graph, config=chosen)
        try:
            with self._graph.as_default():
                meta_graph = tf.compat.v1.saved_model.loader.load(
                    self._session, list(tags), str(directory)
                )
            self.signatures = dict(meta_graph.signature_def)
            self._tensors = {
                info.name: self._graph.get_tensor_by_name(info.name)
                for contract in self.signatures.values()
                for info in [*contract.inputs.values(), *contract.outputs.values()]
                if ":" in info.name  # an operation that initializes has no tensor
            }
            self._cancellation = StepCancellation(self._graph, self._outputs(), steps)
            self._session._extend_graph()
            # The first time takes as long as a small translation.
            self._cancellation.prepare(functools.partial(self._run_ops, []))
        except Exception as error:
            self._session.close()
            raise _load_error(error) from error

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_seconds: float | None = None,
        cancel_token: CancelToken | None = None,
        thread_pool: int = SHARED_POOL,
    ) -> list[np.ndarray]:
        """Returns the fetched tensors of one run.

        Args:
            feeds: Tensor names of signatures, and their values.
            fetches: Tensor names of one signature.
            timeout_seconds: Time after which the runtime stops; None for no limit.
            cancel_token: Stops the run when it is canceled.
            thread_pool: `SHARED_POOL`; or `OWN_THREAD`, that of the caller, which has a
                priority of its own.

        Raises:
            ServingError: As the runtime has it: another type, a failed assertion,
                a deadline. CANCELLED if the request was canceled.
        """
        for name in fetches:
            if name not in self._tensors:
                raise invalid_argument(f"FetchOutputs {name}: output index too large")
        tensors = [self._tensors[name] for name in fetches]
        fed = {self._tensors[name]: value for name, value in feeds.items()}
        targets = self._cancellation.targets(fetches)
        start = time.monotonic()

        def step(own_feeds: Mapping[tf.Tensor, np.ndarray]) -> Sequence[Any]:
            left = timeout_seconds
            if left is not None:
                left -= time.monotonic() - start
            all_feeds = {**fed, **own_feeds}
            return self._run_ops(tensors, targets, all_feeds, left, thread_pool)

        values = self._cancellation.run(
            step,
            functools.partial(self._run_ops, []),
            cancel_token or CancelToken(),
            timeout_seconds,
        )
        return [
            np.asarray(value, object if tensor.dtype == tf.string else None)
            for tensor, value in zip(tensors, values, strict=True)
        ]

    def _run_ops(
        self,
        fetches: Sequence[tf.Tensor],
        targets: Sequence[tf.Operation],
        feeds: Mapping[tf.Tensor, np.ndarray],
        timeout_seconds: float | None = None,
        thread_pool: int = OWN_THREAD,
    ) -> Sequence[Any]:
        """Runs parts of the graph; returns the values of the fetches."""
        options = tf.compat.v1.RunOptions(inter_op_thread_pool=thread_pool)
        if timeout_seconds is not None:
            if timeout_seconds <= 0:
                raise deadline_exceeded()
            options.timeout_in_ms = max(int(timeout_seconds * 1000), 1)
        fed = {tensor._as_tf_output(): value for tensor, value in feeds.items()}
        buffer = pywrap_tf_session.TF_NewBufferFromString(options.SerializeToString())
        try:
            return pywrap_tf_session.TF_SessionRun_wrapper(
                self._session._session,
                buffer,
                fed,
                [tensor._as_tf_output() for tensor in fetches],
                [operation._c_op for operation in targets],
                None,
            )
        except tf.errors.OpError as error:
            raise from_exception(error) from error
        except TypeError as error:
            # NumPy dtype unsupported by TensorFlow.
            raise invalid_argument(str(error)) from error
        finally:
            pywrap_tf_session.TF_DeleteBuffer(buffer)

    def _outputs(self) -> list[dict[str, tf.Tensor]]:
        """Returns the output tensors of each signature by their names."""
        return [
            {
                info.name: self._tensors[info.name]
                for info in contract.outputs.values()
                if info.name in self._tensors
            }
            for contract in self.signatures.values()
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
