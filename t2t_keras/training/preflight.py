"""Before step 1: every program compiled and run once, at the shapes of the run."""

import resource
import time
from collections.abc import Callable, Iterable

import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training.progress import as_duration
from t2t_keras.training.step import Stepper
from t2t_keras.typing import Batch


def preflight(
    stepper: Stepper,
    batches: Iterable[Batch],
    say: Callable[[str], object],
    *,
    only_these: bool,
) -> None:
    """Rehearses a step of each shape: it costs the same memory as any later one.

    Args:
        stepper: Of the run. Its weights, moments and counts stay as they are.
        batches: Of padding, one of each shape.
        say: Called with a line a shape.
        only_these: Whether a batch of another shape is to be an error from now on.

    Raises:
        UserError: If a shape does not fit into memory; it names the most tokens
            that do.
    """
    shapes = []
    start = time.monotonic()
    for batch in batches:
        before = time.monotonic()
        rows, source, target = shape_of(batch)
        try:
            stepper.rehearse(batch)
        except tf.errors.ResourceExhaustedError as error:
            raise _too_large(stepper, batch) from error
        shapes.append((rows, source, target))
        say(
            f"  {rows} x ({source} + {target}) tokens: "
            f"{time.monotonic() - before:.1f}s, peak memory {peak_bytes() / 1e9:.2f} GB"
        )
    if len(shapes) > 1:
        duration = as_duration(time.monotonic() - start)
        say(f"{len(shapes)} shapes compiled and tried in {duration}")
    if only_these:
        stepper.allow_only(shapes)


def shape_of(batch: Batch) -> tuple[int, int, int]:
    """Returns (rows, source length, target length)."""
    rows, source_length = batch["encoder_input_tokens"].shape
    return rows, source_length, batch["decoder_target_tokens"].shape[1]


def peak_bytes() -> int:
    """Returns the most memory in use so far: of the first GPU, or of this process."""
    if tf.config.list_logical_devices("GPU"):
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _too_large(stepper: Stepper, batch: Batch) -> UserError:
    """Returns the error that says what would fit, found by halving."""
    rows, source, target = shape_of(batch)
    name = f"A batch of {rows} x ({source} + {target}) tokens"
    part = rows
    while part > 1:
        part //= 2
        try:
            stepper.rehearse({key: value[:part] for key, value in batch.items()})
        except tf.errors.ResourceExhaustedError:
            continue
        tokens = -(-part // stepper.num_local_replicas) * max(source, target)
        return UserError(
            f"{name} needs more memory than there is. {part} rows of it fit: give "
            f"--max_tokens_per_replica={tokens}, and the same update is made in "
            "several parts."
        )
    return UserError(
        f"{name} needs more memory than there is, and so does a single row of it. "
        "Lower --max_length, or make the model smaller."
    )
