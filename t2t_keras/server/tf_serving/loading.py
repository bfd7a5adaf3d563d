"""Loading of a version of a model from its directory, with its warm-up requests.

The first run of a signature is slow: TensorFlow prepares its graph, XLA compiles. So
requests from the directory are run before it takes others. A record that fails makes
the load fail, because every such request would.
"""

import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from t2t_keras.errors import UserError
from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.server.tf_serving.batching import BatchingOptions, BatchScheduler
from t2t_keras.server.tf_serving.configs import read_batching
from t2t_keras.server.tf_serving.errors import ServingError, invalid_argument
from t2t_keras.server.tf_serving.joined import JoinedRun
from t2t_keras.server.tf_serving.metrics import Metrics, microseconds
from t2t_keras.server.tf_serving.predict import predict
from t2t_keras.server.tf_serving.session import OWN_THREAD, ModelSession, RunFn
from t2t_keras.serving.config_protos import BATCHING_OF_VERSION

WARM_UP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MOST_WARM_UPS = 1000
# Of Linux: a thread of 5 gets a quarter of a core that one of 0 wants as well.
_LESS_PRIORITY = 5


class Servable(NamedTuple):
    """A loaded version.

    Attributes:
        run: Runs a part of its graph.
        signatures: Its `SignatureDef`s by name.
        close: Frees it.
        max_request_size: Maximum number of rows of a request that is run in batches,
            0 without batching.
    """

    run: RunFn
    signatures: Mapping[str, Any]
    close: Callable[[], None]
    max_request_size: int = 0


class Loader:
    """Loader of versions, one at a time: two are not faster, and double the memory.

    Warm-up requests have a thread of low priority, outside of the batches of other
    requests, so that loading leaves the cores to the versions that are serving.

    Args:
        session_config: Configuration of each session.
        scheduler: Scheduler of batches; `None` runs each request by itself.
        warm_up_iterations: Number of times that each warm-up request is run; 0 for
            none.
        metrics: Receives the times of warm-ups.
        tags: Tags of the graph in a SavedModel.
        per_model_batching: Whether sizes and times of batches are read from a file of
            each version. One without the file runs each request by itself.
        xla: Whether signatures that XLA compiles may run.
    """

    def __init__(
        self,
        session_config: tf.compat.v1.ConfigProto | None = None,
        scheduler: BatchScheduler | None = None,
        warm_up_iterations: int = 1,
        metrics: Metrics | None = None,
        tags: Sequence[str] = ("serve",),
        per_model_batching: bool = False,
        xla: bool = True,
    ):
        self._session_config = session_config
        self._scheduler = scheduler
        self._iterations = warm_up_iterations
        self._metrics = metrics or Metrics()
        self._tags = tags
        self._per_model_batching = per_model_batching
        self._xla = xla
        self._loading = threading.Lock()
        self._background = ThreadPoolExecutor(1, "warm-up", initializer=_lower_priority)

    def __call__(self, directory: Path) -> Servable:
        """Loads a version and runs its warm-up requests.

        Raises:
            ServingError: If it cannot be loaded, or a warm-up request fails.
        """
        batching = self._batching_options(directory)
        # The tokenizer's library prints a line when it is first used.
        with self._loading, quiet_start_up():
            session = ModelSession(
                directory, self._session_config, self._tags, self._xla
            )
            run: RunFn = session.run
            background: RunFn = functools.partial(session.run, thread_pool=OWN_THREAD)
            if self._scheduler is not None and batching is not None:
                run = JoinedRun(session.run, self._scheduler, batching)
                joined = JoinedRun(background, self._scheduler, batching)
                background = joined.run_directly
            try:
                if self._iterations:
                    latency = self._metrics.warm_up_latency.labels(str(directory), "OK")
                    with microseconds(latency):
                        self._background.submit(
                            warm_up,
                            directory,
                            background,
                            session.signatures,
                            self._iterations,
                        ).result()
            except BaseException:
                session.close()
                raise
        rows = batching.max_request_size if batching is not None else 0
        return Servable(run, session.signatures, session.close, rows)

    def _batching_options(self, directory: Path) -> BatchingOptions | None:
        """Returns the sizes and times of a version's batches, None for no batches."""
        if self._scheduler is None:
            return None
        if not self._per_model_batching:
            return self._scheduler.options
        path = directory / BATCHING_OF_VERSION
        if not path.exists():
            return None
        try:
            return read_batching(str(path), self._scheduler.options.num_batch_threads)
        except UserError as error:
            raise invalid_argument(str(error)) from error


def _lower_priority() -> None:
    """Lowers the priority of this thread, which only Linux knows."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        own = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, own + _LESS_PRIORITY)


def warm_up(
    directory: Path,
    run: RunFn,
    signatures: Mapping[str, Any],
    iterations: int = 1,
) -> int:
    """Runs the warm-up requests of a version, and returns their number.

    Args:
        directory: Directory of the version.
        run: Run function of the model.
        signatures: `SignatureDef`s of the model by name.
        iterations: Number of times that each is run.

    Raises:
        ServingError: If one fails, there are more than `MOST_WARM_UPS`, or the file
            is damaged.
    """
    path = directory / WARM_UP_FILE
    if not path.is_file():
        return 0
    count = 0
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            count += 1
            if count > MOST_WARM_UPS:
                raise invalid_argument(
                    "Number of warmup records exceeds the maximum "
                    f"({MOST_WARM_UPS}) at {path}"
                )
            for _ in range(iterations):
                predict(run, signatures, _parse_request(record, path))
    except tf.errors.DataLossError as error:
        raise ServingError(
            grpc.StatusCode.DATA_LOSS,
            f"{error.message}. Please verify your warmup data is in TFRecord format.",
        ) from error
    return count


def _parse_request(record: bytes, path: Path) -> Any:
    try:
        log = prediction_log_pb2.PredictionLog.FromString(record)
    except DecodeError as error:
        raise invalid_argument(
            f"Failed to parse warmup record: {record[:80]!r} from {path}"
        ) from error
    kind = log.WhichOneof("log_type")
    if kind != "predict_log":
        raise ServingError(
            grpc.StatusCode.UNIMPLEMENTED,
            f"Unsupported log_type for warmup: {kind}; expected predict_log",
        )
    return log.predict_log.request
