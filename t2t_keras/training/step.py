"""One update: forward, loss, gradients, Adam, on as many replicas as there are.

Shapes: B rows of a batch, T target length, V vocabulary.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.training.losses import LossSums, label_smoothed_cross_entropy
from t2t_keras.typing import Batch, Tensor


class StepSums(NamedTuple):
    """What one update, or one batch of an evaluation, adds up to.

    Attributes:
        losses: Sums over all replicas.
        gradient_norm: float32 scalar, of the mean gradient over tokens; 0 where no
            gradient was taken.
    """

    losses: LossSums
    gradient_norm: Tensor


def row_keys(seed: int, step: Tensor, rows: Tensor) -> Tensor:
    """Returns the dropout keys of rows of the global batch, [B] uint32.

    Args:
        seed: The run's seed.
        step: int64 scalar, updates made so far.
        rows: [B] int32, each row's number in the global batch, so that it drops the
            same wherever it is computed.
    """
    # Philox, whose words do not depend on the device: 2 for each step.
    limits: dict[str, Any] = {"minval": None, "maxval": None}  # all of int32
    words = tf.random.stateless_uniform(
        [2],
        seed=tf.stack([tf.constant(seed, tf.int64), step]),
        dtype=tf.int32,
        alg="philox",
        **limits,
    )
    first, second = tf.unstack(tf.bitcast(words, tf.uint32))
    # An odd factor is invertible modulo 2^32: no two rows share a key.
    return tf.cast(rows, tf.uint32) * tf.bitwise.bitwise_or(second, 1) + first


def batch_signature(*, packed: bool) -> dict[str, tf.TensorSpec]:
    """Returns the dtypes of a batch, with any number of rows and positions.

    Args:
        packed: Whether several pairs share a row.
    """
    tokens = tf.TensorSpec([None, None], tf.int32)
    names = ("encoder_segment_ids", "encoder_positions") if packed else ()
    names += ("decoder_segment_ids", "decoder_positions") if packed else ()
    return {
        "encoder_input_tokens": tokens,
        "decoder_input_tokens": tokens,
        "decoder_target_tokens": tokens,
        "decoder_loss_weights": tf.TensorSpec([None, None], tf.float32),
        **dict.fromkeys(names, tokens),
    }


def share_of(batch: Batch, replica: int, num_replicas: int) -> Batch:
    """Returns the rows of a replica: equal shares, in order, padded at the end.

    Rows of padding weigh nothing, so a batch means the same however many replicas
    divide it.

    Args:
        batch: Features [B, L] as NumPy arrays, all with the same B.
        replica: Which share, in [0, num_replicas).
        num_replicas: How many shares.

    Returns:
        Features [ceil(B / num_replicas), L].
    """

    def share(feature):
        rows = -(-len(feature) // num_replicas)
        part = feature[replica * rows : (replica + 1) * rows]
        return np.pad(part, [(0, rows - len(part)), (0, 0)])

    return {name: share(np.asarray(feature)) for name, feature in batch.items()}


class Stepper:
    """Trains and evaluates a model on batches, under a distribution strategy.

    XLA goes round forward and gradient only: `jit_compile` round the whole step, or
    round `strategy.run`, fails as soon as there are two replicas. Gradients are of
    the loss sum, added up over replicas and divided once by the token count of all.
    ADR 0010.

    Args:
        model: Called on a batch with `dropout_keys`, returns logits [B, T, V].
        optimizer: Built, and taking gradients already summed over replicas; only
            used by `train`.
        strategy: Where model and optimizer were made.
        label_smoothing: Epsilon of the training loss; evaluation has none.
        seed: Of dropout.
        jit_compile: Whether XLA compiles forward and gradient.
        packed: Whether several pairs share a row of the batches to train on. Those
            to evaluate are never packed.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.Optimizer,
        strategy: tf.distribute.Strategy,
        *,
        label_smoothing: float,
        seed: int,
        jit_compile: bool,
        packed: bool = False,
    ):
        self._model = model
        self._optimizer = optimizer
        self._strategy = strategy
        self._label_smoothing = label_smoothing
        self._seed = seed
        # One trace serves every bucket; XLA still compiles a program for each.
        train_spec = batch_signature(packed=packed)
        evaluation_spec = batch_signature(packed=False)
        keys_spec = tf.TensorSpec([None], tf.uint32)
        self._gradients = tf.function(
            self._loss_gradients,
            input_signature=[train_spec, keys_spec],
            jit_compile=jit_compile or None,
        )
        self._losses = tf.function(
            self._loss_only,
            input_signature=[evaluation_spec],
            jit_compile=jit_compile or None,
        )
        self._train = self._distributed(self._train_replica, train_spec)
        self._evaluate = self._distributed(self._evaluate_replica, evaluation_spec)

    def train(self, batch: Batch) -> StepSums:
        """Makes one update with a global batch; returns its sums."""
        return self._train(self._spread(batch))

    def evaluate(self, batch: Batch) -> StepSums:
        """Returns the sums of a global batch: no dropout, no smoothing, no update."""
        return self._evaluate(self._spread(batch))

    def _spread(self, batch: Batch) -> Batch:
        replicas = self._strategy.num_replicas_in_sync

        # The argument is tf.distribute's ValueContext, a name it does not export.
        def value(context: Any) -> Batch:
            share = share_of(batch, context.replica_id_in_sync_group, replicas)
            return {name: tf.constant(feature) for name, feature in share.items()}

        return self._strategy.experimental_distribute_values_from_function(value)

    def _spread_signature(
        self, batch_spec: dict[str, tf.TensorSpec]
    ) -> dict[str, tf.TypeSpec]:
        """Returns the types of a spread batch with any number of rows and positions.

        Without a signature, the first batch would get a trace of its own shape,
        whose results differ in the last bits from those of the trace for all. A run
        that goes on has another first batch than the run that it continues.
        """
        replicas = self._strategy.num_replicas_in_sync
        ones, twos = (
            self._spread(
                {
                    name: np.zeros([replicas * size, size], spec.dtype.as_numpy_dtype)
                    for name, spec in batch_spec.items()
                }
            )
            for size in (1, 2)
        )
        return {
            name: tf.type_spec_from_value(ones[name]).most_specific_common_supertype(
                [tf.type_spec_from_value(twos[name])]
            )
            for name in ones
        }

    def _distributed(
        self, replica_step: Callable, batch_spec: dict[str, tf.TensorSpec]
    ) -> Callable:
        """Returns a traced function of a spread batch, for all shapes alike."""

        def run(batch: Batch) -> StepSums:
            losses, gradient_norm = self._strategy.run(replica_step, args=(batch,))
            sums = [
                self._strategy.reduce(tf.distribute.ReduceOp.SUM, part, axis=None)
                for part in losses
            ]
            # Equal on all replicas, being of the summed gradients.
            norm = self._strategy.experimental_local_results(gradient_norm)[0]
            return StepSums(LossSums(*sums), norm)

        return tf.function(run, input_signature=[self._spread_signature(batch_spec)])

    def _train_replica(self, batch: Batch) -> StepSums:
        context = tf.distribute.get_replica_context()
        rows = tf.shape(batch["encoder_input_tokens"])[0]
        first = rows * context.replica_id_in_sync_group
        step = tf.cast(self._optimizer.iterations.value, tf.int64)
        keys = row_keys(self._seed, step, first + tf.range(rows))
        losses, gradients = self._gradients(batch, keys)
        *gradients, token_count = context.all_reduce(
            tf.distribute.ReduceOp.SUM, [*gradients, losses.token_count]
        )
        # A batch of padding only divides 0 by 1, not by 0.
        token_count = tf.maximum(token_count, 1.0)
        gradients = [gradient / token_count for gradient in gradients]
        self._optimizer.apply(gradients, self._model.trainable_variables)
        return StepSums(losses, tf.linalg.global_norm(gradients))

    def _evaluate_replica(self, batch: Batch) -> StepSums:
        return StepSums(self._losses(batch), tf.constant(0.0))

    def _loss_gradients(self, batch: Batch, keys: Tensor):
        variables = [weight.value for weight in self._model.trainable_variables]
        with tf.GradientTape() as tape:
            losses = self._forward(batch, keys, self._label_smoothing)
        gradients = tape.gradient(losses.loss_sum, variables)
        # The embedding's is a sum of a dense part and of slices; XLA wants one.
        return losses, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _loss_only(self, batch: Batch) -> LossSums:
        return self._forward(batch, None, 0.0)

    def _forward(
        self, batch: Batch, keys: Tensor | None, label_smoothing: float
    ) -> LossSums:
        return label_smoothed_cross_entropy(
            self._model(batch, dropout_keys=keys),
            batch["decoder_target_tokens"],
            batch["decoder_loss_weights"],
            label_smoothing=label_smoothing,
        )
