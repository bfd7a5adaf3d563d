"""TensorFlow 1 session of a SavedModel, as servers in C++ run it.

Never `tf.saved_model.load`: it binds variables by object, and so hides faults of an
export that every real server would meet. Python's checks and conversions of what is
fed are left out for the same reason: TensorFlow's runtime is what answers.
"""

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from t2t_keras.server.tf_serving.errors import (
    ServingError,
    cancelled,
    deadline_exceeded,
    failed_precondition,
    from_exception,
    invalid_argument,
    not_found,
    xla_disabled,
)
from t2t_keras.server.tf_serving.graphs import (
    compiled_outputs,
    read_meta_graph,
    shapeless_inputs,
)
from t2t_keras.server.workers import CancelToken
from t2t_keras.serving.config_protos import read_text_proto

try:
    import tensorflow_text  # registers the tokenizer's ops
except ImportError:
    tensorflow_text = None  # models of ids need none

# A loop holds its thread until it ends: with one thread per core, long translations
# would keep out short ones. With 16 threads on two cores, each takes 1.4 times as long.
_FEWEST_STEPS = 4
# Threads that steps leave free, to load other versions.
_SPARE_THREADS = 2
# Between two looks at whether a request that waits was canceled.
_POLL_SECONDS = 0.05

# Values of `RunOptions.inter_op_thread_pool`. With several devices TensorFlow takes the
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
        xla: Whether signatures that XLA compiles may run. As a stock server does, one
            without XLA loads them, and refuses their requests.

    Raises:
        ServingError: If it cannot be loaded.
    """

    def __init__(
        self,
        directory: Path,
        config: tf.compat.v1.ConfigProto | None = None,
        tags: Sequence[str] = ("serve",),
        xla: bool = True,
    ):
        chosen: Any = session_config() if config is None else config
        threads = chosen.session_inter_op_thread_pool[0].num_threads
        steps = max(threads - _SPARE_THREADS, 1) if threads else _FEWEST_STEPS
        self._free_steps = threading.Semaphore(steps)
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=chosen)
        try:
            meta_graph = read_meta_graph(directory, tags)
            with graph.as_default():
                inputs = shapeless_inputs(meta_graph)
                tf.compat.v1.saved_model.loader.load(
                    self._session, list(tags), str(directory), input_map=inputs
                )
            self.signatures = dict(meta_graph.signature_def)
            self._tensors = {
                info.name: graph.get_tensor_by_name(info.name)
                for contract in self.signatures.values()
                for info in [*contract.inputs.values(), *contract.outputs.values()]
                if ":" in info.name  # an operation that initializes has no tensor
            } | inputs
            self._refused = set() if xla else compiled_outputs(meta_graph)
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
            cancel_token: Keeps a run that waits for others from being begun.
            thread_pool: `SHARED_POOL`; or `OWN_THREAD`, that of the caller, which has a
                priority of its own.

        Raises:
            ServingError: As the runtime has it: another type, a failed assertion,
                a deadline. CANCELLED if the request was canceled before it began.
        """
        for name in fetches:
            if name not in self._tensors:
                raise invalid_argument(f"FetchOutputs {name}: output index too large")
        if not self._refused.isdisjoint(fetches):
            raise xla_disabled()
        self._check_types(feeds)
        end = math.inf
        if timeout_seconds is not None:
            end = time.monotonic() + timeout_seconds
        tensors = [self._tensors[name] for name in fetches]
        fed = {self._tensors[name]: value for name, value in feeds.items()}
        options = tf.compat.v1.RunOptions(inter_op_thread_pool=thread_pool)
        with self._step(end, cancel_token or CancelToken()):
            if timeout_seconds is not None:
                left = end - time.monotonic()
                options.timeout_in_ms = max(int(left * 1000), 1)  # 0 is no limit
            try:
                values = self._session.run(tensors, fed, options)
            except tf.errors.OpError as error:
                # Python's session adds what it knows of the graph to the message.
                raise from_exception(error.__context__ or error) from error
            except RuntimeError as error:
                # Unloaded meanwhile, as when the server stops.
                raise cancelled() from error
        return [
            np.asarray(value, object if tensor.dtype == tf.string else None)
            for tensor, value in zip(tensors, values, strict=True)
        ]

    def close(self) -> None:
        """Frees the variables; running requests are canceled."""
        self._session.close()

    def _check_types(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Refuses values of other types, which Python's session would convert."""
        for index, name in enumerate(sorted(feeds)):
            expected = self._tensors[name].dtype
            if feeds[name].dtype != expected.as_numpy_dtype:
                raise invalid_argument(
                    f"Expects arg[{index}] to be {_type_name(expected)} but "
                    f"{_type_name(tf.as_dtype(feeds[name].dtype))} is provided"
                )

    @contextlib.contextmanager
    def _step(self, end: float, cancel_token: CancelToken) -> Iterator[None]:
        """Waits until a step may begin, and counts it until it ends."""
        while True:
            if cancel_token.cancelled:
                raise cancelled()
            left = end - time.monotonic()
            if left <= 0:
                raise deadline_exceeded()
            if self._free_steps.acquire(timeout=min(left, _POLL_SECONDS)):
                break
        try:
            yield
        finally:
            self._free_steps.release()


def _type_name(dtype: tf.DType) -> str:
    """Returns the name in the runtime's messages: "float" for float32."""
    name = types_pb2.DataType.Name(dtype.as_datatype_enum)
    return name.removeprefix("DT_").lower()


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
