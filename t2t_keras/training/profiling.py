"""Profiling: FLOPs of a batch, the devices' peak FLOP/s, and TensorBoard profiles.

FLOPs are those of matrix products, a multiplication and an addition counted as 2: the
rest is below 1 % of a Transformer's arithmetic.

Shapes: B rows, S source length, T target length; D, F, H, K, U and V are the model's
sizes.
"""

import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from t2t_keras.typing import BatchSize, Tensor

# The backward pass has two products of the same size for each: the gradients of its
# two factors.
_TRAINING_PER_FORWARD = 3


def forward_flops(
    sizes: Mapping[str, int], rows: int, source_length: int, target_length: int
) -> float:
    """Returns the FLOPs of logits for a batch of padded pairs.

    Restricted attention counts as its band, r keys for each query, without the rest
    of the blocks that are multiplied.

    Args:
        sizes: encoder_layers, decoder_layers, d_model, d_ff, num_heads, d_k, d_v,
            vocabulary_size, and encoder_neighborhood where there is one.
        rows: B.
        source_length: S, padding counted.
        target_length: T, padding counted.
    """
    d_model, d_ff = sizes["d_model"], sizes["d_ff"]
    # Both of H x K and H x U are D in the paper's models.
    per_key = sizes["num_heads"] * (sizes["d_k"] + sizes["d_v"])
    projections = 4 * d_model * per_key  # queries, keys, values and output
    feed_forward = 4 * d_model * d_ff
    # Scores and weighted sum, for each pair of a query and a key.
    attended = 2 * per_key
    source = projections + feed_forward
    memory = projections // 2  # its keys and values, in each decoder layer
    target = (
        projections
        + attended * target_length
        + projections // 2
        + attended * source_length
        + feed_forward
    )
    logits = 2 * d_model * sizes["vocabulary_size"]
    encoder_layers, decoder_layers = sizes["encoder_layers"], sizes["decoder_layers"]
    pairs = _pairs_in_reach(source_length, sizes.get("encoder_neighborhood"))
    encoder = encoder_layers * (source_length * source + attended * pairs)
    decoder = decoder_layers * (source_length * memory + target_length * target)
    return float(rows * (encoder + decoder + target_length * logits))


def _pairs_in_reach(length: int, neighborhood: int | None) -> int:
    """Returns how many pairs of a query and a key one sentence's encoder has."""
    if neighborhood is None:
        return length * length
    reach = min(neighborhood // 2, length - 1)
    # At either end the neighborhoods of `reach` queries stick out, by 1, 2, 3, ...
    return length * (2 * reach + 1) - reach * (reach + 1)


def training_flops(sizes: Mapping[str, int], batch: BatchSize) -> float:
    """Returns the FLOPs of an update: forward, and twice as much backward.

    Args:
        sizes: See `forward_flops`.
        batch: Size of the batch; padding costs as much as tokens.
    """
    return _TRAINING_PER_FORWARD * forward_flops(sizes, *batch.shape)


def matrix_product_ceiling(
    strategy: tf.distribute.Strategy,
    *,
    tokens: int,
    d_model: int,
    d_ff: int,
    dtype: str,
    seconds: float = 2.0,
) -> float:
    """Returns the FLOP/s of matrix products alone, on all devices together.

    The products are those of the feed-forward network, one after the other. Training
    reaches a fraction of this rate.

    Args:
        strategy: The devices, which all work at the same time.
        tokens: Number of rows of the products, for each device.
        d_model: D.
        d_ff: F.
        dtype: Name of the dtype of the products.
        seconds: Approximate duration of the measurement.
    """
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> Tensor:
        # Scaled to avoid both large and denormal numbers.
        values = random.normal(size=(rows, columns), scale=rows**-0.5)
        return tf.constant(values, dtype)

    inner, outer = matrix(d_model, d_ff), matrix(d_ff, d_model)
    start = matrix(tokens, d_model)

    def products(count):
        # tf.while_loop: AutoGraph cannot convert this loop under Python 3.13.
        _, hidden = tf.while_loop(
            lambda i, _: i < count,
            lambda i, hidden: (i + 1, tf.matmul(tf.matmul(hidden, inner), outer)),
            (tf.constant(0), start),
        )
        return tf.reduce_sum(tf.cast(hidden, tf.float32))

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)], autograph=False)
    def run(count):
        per_replica = strategy.run(products, args=(count,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)

    def measure(count: int) -> float:
        begin = time.perf_counter()
        float(run(tf.constant(count)))
        return time.perf_counter() - begin

    measure(1)  # traces
    count = 1
    while (duration := measure(count)) < seconds / 4:
        count *= 2
    best = min(duration, *(measure(count) for _ in range(2)))
    flops = 4.0 * tokens * d_model * d_ff * count
    return flops * strategy.num_replicas_in_sync / best


class StepProfiler:
    """Profiler of some updates, for TensorBoard.

    Used as a context, so that a run that ends in between leaves a complete profile.

    Args:
        steps: Numbers of the updates to record; empty for none.
        log_dir: TensorBoard's folder.
    """

    def __init__(self, steps: range, log_dir: str):
        self._steps = steps
        self._log_dir = log_dir
        self._running = False

    def __enter__(self) -> "StepProfiler":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def before(self, step: int) -> None:
        """Starts recording if the next update is one of `steps`."""
        # Not only before the first of them: a run may resume at a later one.
        if step in self._steps and not self._running:
            tf.profiler.experimental.start(self._log_dir)
            self._running = True

    def after(self, step: int, result: object) -> None:
        """Stops recording if that was the last update of `steps`.

        Args:
            step: Number of the last update.
            result: Its tensors. Recording waits for them; otherwise the profile would
                lack work that an accelerator has not done yet.
        """
        if self._running and step + 1 not in self._steps:
            for tensor in tf.nest.flatten(result):
                float(tensor)
            self._stop()

    def _stop(self) -> None:
        if self._running:
            self._running = False
            tf.profiler.experimental.stop()
