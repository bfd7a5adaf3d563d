"""Pre-flight check before step 1: every shape compiles and fits in memory.

Where that is not necessary, `compile_if_new` does it when a batch comes.
"""

import bisect
import itertools
import logging
import resource
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training.progress import as_duration
from t2t_keras.training.step import Stepper, batch_shape, micro_batch_count
from t2t_keras.typing import Batch, BatchShape

logger = logging.getLogger(__name__)

_TO_EVALUATE = " to evaluate"


def preflight(
    stepper: Stepper,
    to_train: Iterable[Batch],
    to_evaluate: Iterable[Batch],
    *,
    only_these: bool,
    several: Iterable[Sequence[Batch]] = (),
    multi_worker: bool = False,
) -> None:
    """Runs each shape once; later updates need no more memory.

    Args:
        stepper: The stepper of the run. Its weights, moments and counts do not change.
        to_train: Batches of padding, one of each shape to train on.
        to_evaluate: Batches of padding, one of each shape to evaluate on.
        several: Updates on more than one batch, of shapes to train on.
        only_these: Whether a batch of another shape is an error from now on.
        multi_worker: Whether other processes do the same. They wait for a step that
            failed here, so no smaller batch can be tried.

    Raises:
        UserError: If a shape does not fit into memory; it names the largest number of
            tokens that fits, or with several processes a number to try.
    """
    start = time.monotonic()
    logger.info("compiling …" if only_these else "trying the largest batches …")
    updates = itertools.chain(([batch] for batch in to_train), several)
    trained = _try_shapes(stepper, stepper.compile_step, updates, "", multi_worker)
    evaluations = ([batch] for batch in to_evaluate)
    evaluated = _try_shapes(
        stepper, stepper.evaluate, evaluations, _TO_EVALUATE, multi_worker
    )
    if len(trained) + len(evaluated) > 1:
        duration = as_duration(time.monotonic() - start)
        done = "compiled and tried" if only_these else "tried"
        plural = "" if len(evaluated) == 1 else "s"
        logger.info(
            f"{done} {len(trained)} training and {len(evaluated)} evaluation "
            f"shape{plural} in {duration}"
        )
    if only_these:
        stepper.allow_only(trained, evaluated)


def compile_if_new(stepper: Stepper, batches: Sequence[Batch]) -> None:
    """Compiles what an update on these batches needs, unless it is compiled already.

    Weights, moments and counts do not change.
    """
    if stepper.must_compile(batches):
        _try_shapes(stepper, stepper.compile_step, [batches], "", multi_worker=False)


def _try_shapes(
    stepper: Stepper,
    run: Callable[..., object],
    updates: Iterable[Sequence[Batch]],
    purpose: str,
    multi_worker: bool,
) -> list[BatchShape]:
    """Makes updates, logs a line for each, and returns the shapes of single batches."""
    shapes = []
    for batches in updates:
        before = time.monotonic()
        batch, count = batches[0], len(batches)
        shape = batch_shape(batch)
        try:
            run(*batches)
        except tf.errors.ResourceExhaustedError as error:
            if multi_worker:
                raise _too_large_for_one(stepper, batch, purpose) from error
            raise _too_large(stepper, run, batch, purpose) from error
        if count == 1:
            shapes.append(shape)
        logger.info(
            f"  {f'{count} batches of ' if count > 1 else ''}"
            f"{shape.rows} x ({shape.source_bound} + {shape.target_bound}) tokens"
            f"{purpose}: "
            f"{time.monotonic() - before:.1f}s, peak memory {peak_bytes() / 1e9:.2f} GB"
        )
    return shapes


def peak_bytes() -> int:
    """Returns the peak memory in use so far: of the first GPU, or of this process."""
    if tf.config.list_logical_devices("GPU"):
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _too_large(
    stepper: Stepper, run: Callable[..., object], batch: Batch, purpose: str
) -> UserError:
    """Returns the error with the largest number of tokens that fits, by bisection."""
    rows, source, target = batch_shape(batch)
    length = max(source, target)
    at_a_time = _rows_at_a_time(stepper, rows, length)
    name = _name(stepper, batch, purpose)
    same = "evaluation in parts" if purpose else "update with gradient accumulation"

    def fails(fewer: int) -> bool:
        # Two micro-batches, for gradient accumulation needs memory of its own.
        total = 2 * fewer * stepper.num_local_replicas
        two = {
            key: np.resize(value, (total, *value.shape[1:]))
            for key, value in batch.items()
        }
        try:
            run(two, max_tokens=fewer * length)
        except tf.errors.ResourceExhaustedError:
            return True
        return False

    # Numbers of rows that fit come before those that do not.
    fitting_rows = bisect.bisect_left(range(1, at_a_time), True, key=fails)
    if fitting_rows:
        return UserError(
            f"{name} needs more memory than there is. {fitting_rows} rows fit. Set "
            f"--max_tokens_per_replica={fitting_rows * length} for the same {same}."
        )
    return UserError(
        f"{name} needs more memory than there is, and so does a single row of it. "
        "Lower --max_length, or make the model smaller."
    )


def _too_large_for_one(stepper: Stepper, batch: Batch, purpose: str) -> UserError:
    """Returns the error for several processes, with a number of tokens to try."""
    rows, source, target = batch_shape(batch)
    length = max(source, target)
    half = _rows_at_a_time(stepper, rows, length) // 2
    advice = "Lower --max_length, or make the model smaller."
    if half:
        advice = f"Give all of them --max_tokens_per_replica={half * length}."
    return UserError(
        f"{_name(stepper, batch, purpose)} needs more memory than this worker has. The "
        f"others wait for it, so nothing smaller was tried. {advice}"
    )


def _name(stepper: Stepper, batch: Batch, purpose: str) -> str:
    rows, source, target = batch_shape(batch)
    name = f"A batch of {rows} x ({source} + {target}) tokens{purpose}"
    if stepper.max_tokens is None:
        return name
    at_a_time = _rows_at_a_time(stepper, rows, max(source, target))
    return f"{name}, {at_a_time} rows at a time on a device,"


def _rows_at_a_time(stepper: Stepper, rows: int, length: int) -> int:
    """Returns the number of rows of a batch that a device computes at a time."""
    shard_rows = -(-rows // stepper.num_local_replicas)
    return -(-shard_rows // micro_batch_count(shard_rows, length, stepper.max_tokens))
