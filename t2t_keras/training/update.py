"""Update step of one replica: forward, loss, gradients, all-reduce, Adam.

Shapes: B rows of its share, L length.
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_keras.training.losses import LossSums, label_smoothed_cross_entropy
from t2t_keras.training.optimizer import SummedGradientAdam
from t2t_keras.training.shares import ROW_NUMBERS
from t2t_keras.typing import (
    DECODER_LOSS_WEIGHTS,
    DECODER_TARGET_TOKENS,
    FEATURE_DTYPES,
    PACKED_FEATURE_DTYPES,
    Batch,
    Tensor,
)


class StepSums(NamedTuple):
    """Sums of one update, or of one batch of an evaluation, over all replicas.

    Tensors as they come from a step; numbers once `read_updates` has read them.

    Attributes:
        losses: Sums over tokens.
        gradient_norm: float32 scalar, of the mean gradient over tokens; 0 where no
            gradient was taken.
        skipped: float32 scalar, 1 where loss or gradient was not a finite number, so
            that the update was not applied; else 0. An update that is not applied
            because float16's loss scale is too large, and shrinks, does not count.
        stops: float32 scalar, how many replicas were asked to stop.
        reduce_seconds: float32 scalar, from one replica's own gradients to the norm of
            all: the transfer, and the wait for slower replicas. 0 where there is one,
            and where it was not asked for.
    """

    losses: LossSums
    gradient_norm: Tensor = 0.0
    skipped: Tensor = 0.0
    stops: Tensor = 0.0
    reduce_seconds: Tensor = 0.0


class StepFlags(NamedTuple):
    """What is asked of a step besides its batch, the same on all local replicas.

    Attributes:
        counts: bool scalar; False to leave weights, moments and counts alone.
        stop: float32 scalar, 1 where this process was asked to stop.
        timed: bool scalar, whether to look at the clock, for which an accelerator's
            work has to be waited for.
    """

    counts: Any = True
    stop: Any = 0.0
    timed: Any = False


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
    dtypes = PACKED_FEATURE_DTYPES if packed else FEATURE_DTYPES
    return {name: tf.TensorSpec([None, None], dtype) for name, dtype in dtypes}


class ReplicaUpdate:
    """An update, or a part of an evaluation, as each replica computes it.

    Gradients are of the loss sum, added up over micro-batches and replicas and divided
    once by the token count of all. XLA goes round forward and gradient only: round the
    whole of it, it fails as soon as there are two replicas. To be called in a replica
    context. ADR 0010.

    Args:
        model: Has `hidden_states(batch, dropout_keys)` [B, T, D], whose product with
            its `output_embeddings` [V, D] are the logits.
        optimizer: Built; only used by `train`.
        label_smoothing: Epsilon of the training loss; evaluation has none.
        seed: Of dropout.
        jit_compile: Whether XLA compiles forward and gradient.
        packed: Whether several pairs share a row of the batches to train on. Those
            to evaluate are never packed.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: SummedGradientAdam,
        *,
        label_smoothing: float,
        seed: int,
        jit_compile: bool,
        packed: bool = False,
    ):
        self._model = model
        self._optimizer = optimizer
        self._label_smoothing = label_smoothing
        self._seed = seed
        self.train_signature = batch_signature(packed=packed)
        self.evaluation_signature = batch_signature(packed=False)
        # One trace serves every shape; XLA still compiles a program for each.
        keys_spec = tf.TensorSpec([None], tf.uint32)
        scale_spec = tf.TensorSpec([], tf.float32)
        self._gradients = tf.function(
            self._loss_gradients,
            input_signature=[self.train_signature, keys_spec, scale_spec],
            jit_compile=jit_compile or None,
            autograph=False,
        )
        self._losses = tf.function(
            self._loss_only,
            input_signature=[self.evaluation_signature],
            jit_compile=jit_compile or None,
            autograph=False,
        )

    def train(self, share: Batch, flags: StepFlags) -> StepSums:
        """Makes this replica's part of an update; returns the sums of all replicas.

        Args:
            share: Features [B, L] and `ROW_NUMBERS` [B], as `share_of` returns them,
                or cut into micro-batches, with one more axis in front.
            flags: The same on all replicas.
        """
        losses, gradients = self._summed_gradients(share)
        before = self._seconds_at(losses.loss_sum, gradients, flags.timed)
        # A copy on this device: what has no device cannot be reduced.
        stop = tf.identity(flags.stop)
        *gradients, loss_sum, log_loss_sum, token_count, stops = self._all_reduced(
            [*gradients, *losses, stop]
        )
        # A batch of padding only divides 0 by 1, not by 0.
        divisor = tf.maximum(token_count, 1.0) * self._loss_scale()
        norm = tf.linalg.global_norm(gradients) / divisor
        after = self._seconds_at(norm, gradients, flags.timed)
        finite = tf.math.is_finite(loss_sum) & tf.math.is_finite(norm)
        mendable = tf.math.is_finite(loss_sum) & self._optimizer.can_scale_less()
        self._optimizer.apply_summed(
            gradients, divisor, finite=finite, counts=flags.counts
        )
        return StepSums(
            LossSums(loss_sum, log_loss_sum, token_count),
            norm,
            1.0 - tf.cast(finite | mendable, tf.float32),
            stops,
            tf.cast(after - before, tf.float32),
        )

    def evaluate(self, share: Batch) -> StepSums:
        """Returns the sums of all replicas, without dropout and smoothing.

        Args:
            share: Features [B, L] and `ROW_NUMBERS`, as `share_of` returns them.
        """
        features = {name: part for name, part in share.items() if name != ROW_NUMBERS}
        sums = self._all_reduced(list(self._losses(features)))
        zero = tf.constant(0.0)
        return StepSums(LossSums(*sums), zero, zero, zero, zero)

    def _seconds_at(
        self, number: Tensor, others: list[Tensor], timed: Tensor
    ) -> Tensor:
        """Returns a clock's time when a scalar and others are there, or 0."""
        if tf.distribute.get_replica_context().num_replicas_in_sync == 1:
            return tf.constant(0.0, tf.float64)
        with tf.control_dependencies(others):
            number = tf.identity(number)

        def clock() -> Tensor:
            # An accelerator works on its own: on the host a number is there when it
            # has been computed.
            with tf.device("CPU:0"), tf.control_dependencies([tf.identity(number)]):
                return tf.timestamp()

        return tf.cond(timed, clock, lambda: tf.constant(0.0, tf.float64))

    def _all_reduced(self, tensors: list[Tensor]) -> list[Tensor]:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)

    def _summed_gradients(self, batch: Batch) -> tuple[LossSums, list[Tensor]]:
        """Returns sums over this replica's share, [B, L] or [count, B, L].

        Of micro-batches, [count, B, L], the gradients are added: gradient accumulation.
        """
        if batch[ROW_NUMBERS].shape.rank == 1:
            return self._micro_gradients(batch)

        def add(i: Tensor, sums: Any) -> Any:
            part = self._micro_gradients(_at(batch, i))
            return i + 1, tf.nest.map_structure(tf.add, sums, part)

        count = tf.shape(batch[ROW_NUMBERS])[0]
        start = (tf.constant(1), self._micro_gradients(_at(batch, 0)))
        return tf.while_loop(lambda i, _: i < count, add, start)[1]

    def _micro_gradients(self, batch: Batch) -> tuple[LossSums, list[Tensor]]:
        batch = dict(batch)
        step = tf.cast(self._optimizer.iterations.value, tf.int64)
        keys = row_keys(self._seed, step, batch.pop(ROW_NUMBERS))
        return self._gradients(batch, keys, self._loss_scale())

    def _loss_scale(self) -> Tensor:
        if not self._optimizer.dynamic_loss_scale:
            return tf.constant(1.0)
        return tf.identity(self._optimizer.loss_scale.value)

    def _loss_gradients(self, batch: Batch, keys: Tensor, scale: Tensor):
        variables = [weight.value for weight in self._model.trainable_variables]
        with tf.GradientTape() as tape:
            losses = self._forward(batch, keys, self._label_smoothing, scale)
        gradients = tape.gradient(losses.loss_sum, variables)
        # The embedding's is a sum of a dense part and of slices; XLA wants one.
        return losses, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _loss_only(self, batch: Batch) -> LossSums:
        return self._forward(batch, None, 0.0, None)

    def _forward(
        self,
        batch: Batch,
        keys: Tensor | None,
        label_smoothing: float,
        gradient_scale: Tensor | None,
    ) -> LossSums:
        return label_smoothed_cross_entropy(
            self._model.hidden_states(batch, keys),
            tf.convert_to_tensor(self._model.output_embeddings),
            batch[DECODER_TARGET_TOKENS],
            batch[DECODER_LOSS_WEIGHTS],
            label_smoothing=label_smoothing,
            gradient_scale=gradient_scale,
        )


def _at(batch: Batch, i: Tensor | int) -> Batch:
    return {name: feature[i] for name, feature in batch.items()}
