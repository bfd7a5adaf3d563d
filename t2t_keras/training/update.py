"""Update step of one replica: forward, loss, gradients, all-reduce, optimizer.

Shapes: B rows of its shard, L length.
"""

from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf

from t2t_keras.training.losses import (
    LossSums,
    alignment_cross_entropy,
    label_smoothed_cross_entropy,
)
from t2t_keras.training.optimizer import SummedGradients
from t2t_keras.training.weight_averages import WeightAverages
from t2t_keras.typing import (
    ALIGNMENT,
    DECODER_LOSS_WEIGHTS,
    DECODER_TARGET_TOKENS,
    FEATURE_DTYPES,
    PACKED_FEATURE_DTYPES,
    Batch,
    Tensor,
)

ROW_NUMBERS = "row_numbers"
"""Name of a feature [B] int32: each row's number in the global batch."""


class StepSums(NamedTuple):
    """Sums of one update, or of one batch of an evaluation, over all replicas.

    Tensors when a step returns them; numbers after `read_updates`.

    Attributes:
        losses: Sums over tokens.
        gradient_norm: float32 scalar, norm of the mean gradient over tokens before
            clipping; 0 in an evaluation.
        skipped: float32 scalar, 1 if the update was not applied because loss or
            gradient was not finite; else 0. Also 0 where a smaller loss scale of
            float16 may repair the overflow.
        stops: float32 scalar, number of replicas that were asked to stop.
        reduce_seconds: float32 scalar, from a replica's own gradients to the norm of
            their sum: the transfer, and the wait for slower replicas. 0 with one
            replica, and if `StepFlags.timed` is False.
    """

    losses: LossSums
    gradient_norm: Tensor = 0.0
    skipped: Tensor = 0.0
    stops: Tensor = 0.0
    reduce_seconds: Tensor = 0.0


ReplicaSums: TypeAlias = tuple[LossSums, list[Tensor]]
"""Sums over one replica's shards: of the losses, and of their gradients."""


class StepFlags(NamedTuple):
    """Options of a step besides its batch, the same on all local replicas.

    Attributes:
        counts: bool scalar; False to leave weights, moments and counts alone.
        stop: float32 scalar, 1 where this process was asked to stop.
        timed: bool scalar, whether to measure `reduce_seconds`, for which the step
            waits until the accelerator has finished.
    """

    counts: Any = True
    stop: Any = 0.0
    timed: Any = False


def row_keys(seed: int, step: Tensor, rows: Tensor) -> Tensor:
    """Returns the dropout keys of rows of the global batch, [B] uint32.

    Args:
        seed: The run's seed.
        step: int64 scalar, number of updates so far.
        rows: [B] int32, each row's number in the global batch, so that its dropout
            mask does not depend on the replica.
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


def batch_signature(*, packed: bool, aligned: bool = False) -> dict[str, tf.TensorSpec]:
    """Returns the dtypes of a batch, with any number of rows and positions.

    Args:
        packed: Whether several pairs share a row.
        aligned: Whether it has the feature of guided alignment.
    """
    dtypes = PACKED_FEATURE_DTYPES if packed else FEATURE_DTYPES
    signature = {name: tf.TensorSpec([None, None], dtype) for name, dtype in dtypes}
    if aligned:
        signature[ALIGNMENT] = tf.TensorSpec([None, None, None], tf.uint8)
    return signature


class ReplicaUpdate:
    """An update, or a part of an evaluation, as each replica computes it.

    With R-Drop (Liang et al. 2021, arXiv 2106.14448), each row is computed with two
    dropout masks. The loss of a token is the mean of both cross-entropies, plus the
    weight / 4 times the sum of both Kullback-Leibler divergences between the two
    distributions: half of the paper's equation 4, whose cross-entropies are added.

    Gradients are those of the loss sum, added over micro-batches (gradient
    accumulation) and replicas and divided once by the total token count. XLA compiles
    forward and gradient only: compiled as a whole, the update fails with two replicas.
    To be called in a replica context. ADR 0010.

    Args:
        model: Has `hidden_states(batch, dropout_keys)` [B, T, D], whose product with
            its `output_embeddings` [V, D], plus its `output_bias` [V] unless that is
            None or missing, are the logits. With `with_attention=True` it returns
            attention [B, H, T, S] too.
        optimizer: Built; used by `train` only, None for an update that never trains.
        averages: Moving averages of the weights to update too; None for none.
        clip_norm: Maximum norm of the mean gradient, to which larger gradients are
            scaled (gradient clipping by global norm); None for no limit.
        label_smoothing: Epsilon of the training loss; evaluation has none.
        guided_alignment: Weight of the loss of guided alignment, which is added to the
            training loss for the first head; 0 for none.
        r_drop: Weight of the loss of R-Drop; 0 for none.
        seed: Seed of dropout.
        jit_compile: Whether XLA compiles forward and gradient.
        logits_at_once: Maximum number of logits that the loss has in memory at a time.
        packed: Whether several pairs share a row of the batches to train on. Those
            to evaluate are never packed.
    """

    def __init__(  # noqa: PLR0913 - every option of an update
        self,
        model: keras.Model,
        optimizer: SummedGradients | None,
        *,
        averages: WeightAverages | None = None,
        clip_norm: float | None = None,
        label_smoothing: float,
        guided_alignment: float = 0.0,
        r_drop: float = 0.0,
        seed: int,
        jit_compile: bool,
        logits_at_once: int,
        packed: bool = False,
    ):
        self._model = model
        self._optimizer: Any = optimizer  # None only where `train` is never called
        self._averages = averages
        self._clip_norm = clip_norm
        self._label_smoothing = label_smoothing
        self._guided_alignment = guided_alignment
        self._r_drop = r_drop
        self._seed = seed
        self._compiled = jit_compile
        self._logits_at_once = logits_at_once
        self.train_signature = batch_signature(
            packed=packed, aligned=guided_alignment > 0
        )
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

    def train(
        self, shard: Batch, flags: StepFlags, earlier: ReplicaSums | None = None
    ) -> StepSums:
        """Makes this replica's part of an update; returns the sums of all replicas.

        Args:
            shard: Features [B, L] and `ROW_NUMBERS` [B], as `shard_batch` returns them,
                or with an axis of micro-batches in front.
            flags: Options, the same on all replicas.
            earlier: This replica's sums over other batches of the update.
        """
        losses, gradients = self._sum_gradients(shard)
        if earlier is not None:
            losses, gradients = _add(earlier, (losses, gradients))
        before = self._seconds_at(losses.loss_sum, gradients, flags.timed)
        # A copy on this device: a tensor without a device cannot be reduced.
        stop = tf.identity(flags.stop)
        *gradients, loss_sum, log_loss_sum, token_count, stops = self._all_reduce(
            [*gradients, *losses, stop]
        )
        # A batch of padding only: 0 divided by 1, not by 0.
        divisor = tf.maximum(token_count, 1.0) * self._loss_scale()
        norm = tf.linalg.global_norm(gradients) / divisor
        after = self._seconds_at(norm, gradients, flags.timed)
        is_finite = tf.math.is_finite(loss_sum) & tf.math.is_finite(norm)
        is_recoverable = (
            tf.math.is_finite(loss_sum) & self._optimizer.can_reduce_loss_scale()
        )
        if self._clip_norm is not None:
            divisor *= tf.maximum(norm / self._clip_norm, 1.0)
        applies = self._optimizer.apply_summed(
            gradients, divisor, finite=is_finite, counts=flags.counts
        )
        if self._averages is not None:
            self._averages.update(self._optimizer.applied.value, applies)
        return StepSums(
            LossSums(loss_sum, log_loss_sum, token_count),
            norm,
            1.0 - tf.cast(is_finite | is_recoverable, tf.float32),
            stops,
            tf.cast(after - before, tf.float32),
        )

    def no_sums(self) -> ReplicaSums:
        """Returns what `add` starts from: zeros."""
        zeros = [tf.zeros_like(weight) for weight in self._model.trainable_variables]
        return LossSums(tf.zeros([]), tf.zeros([]), tf.zeros([])), zeros

    def add(self, shard: Batch, earlier: ReplicaSums) -> ReplicaSums:
        """Returns this replica's sums over a batch and over those before it.

        Args:
            shard: See `train`. The rows of all batches of an update have different
                numbers.
            earlier: Sums over the batches before.
        """
        return _add(earlier, self._sum_gradients(shard))

    def evaluate(self, shard: Batch) -> StepSums:
        """Returns the sums of all replicas, without dropout and smoothing.

        Args:
            shard: Features [B, L] and `ROW_NUMBERS`, as `shard_batch` returns them.
        """
        features = {name: part for name, part in shard.items() if name != ROW_NUMBERS}
        sums = self._all_reduce(list(self._losses(features)))
        zero = tf.constant(0.0)
        return StepSums(LossSums(*sums), zero, zero, zero, zero)

    def _seconds_at(
        self, number: Tensor, others: list[Tensor], timed: Tensor
    ) -> Tensor:
        """Returns the time when a scalar and others are computed; 0 if not timed."""
        if tf.distribute.get_replica_context().num_replicas_in_sync == 1:
            return tf.constant(0.0, tf.float64)
        with tf.control_dependencies(others):
            number = tf.identity(number)

        def clock() -> Tensor:
            # An accelerator works asynchronously: a number is on the host only after
            # it has been computed.
            with tf.device("CPU:0"), tf.control_dependencies([tf.identity(number)]):
                return tf.timestamp()

        return tf.cond(timed, clock, lambda: tf.constant(0.0, tf.float64))

    def _all_reduce(self, tensors: list[Tensor]) -> list[Tensor]:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)

    def _sum_gradients(self, batch: Batch) -> ReplicaSums:
        """Returns sums over this replica's shard, [B, L] or [count, B, L].

        Those of micro-batches, [count, B, L], are added: gradient accumulation.
        """
        if batch[ROW_NUMBERS].shape.rank == 1:
            return self._micro_gradients(batch)

        def add(i: Tensor, sums: Any) -> Any:
            part = self._micro_gradients(_select_micro_batch(batch, i))
            return i + 1, _add(sums, part)

        count = tf.shape(batch[ROW_NUMBERS])[0]
        start = (tf.constant(1), self._micro_gradients(_select_micro_batch(batch, 0)))
        return tf.while_loop(lambda i, _: i < count, add, start)[1]

    def _micro_gradients(self, batch: Batch) -> ReplicaSums:
        batch = dict(batch)
        step = tf.cast(self._optimizer.iterations.value, tf.int64)
        keys = row_keys(self._seed, step, batch.pop(ROW_NUMBERS))
        if self._r_drop:
            batch, keys = _paired(batch, keys)
        return self._gradients(batch, keys, self._loss_scale())

    def _loss_scale(self) -> Tensor:
        if not self._optimizer.dynamic_loss_scale:
            return tf.constant(1.0)
        return tf.identity(self._optimizer.loss_scale.value)

    def _loss_gradients(self, batch: Batch, keys: Tensor, scale: Tensor):
        variables = [weight.value for weight in self._model.trainable_variables]
        with tf.GradientTape() as tape:
            losses, objective = self._training_losses(batch, keys, scale)
        gradients = tape.gradient(objective, variables)
        # The embedding's gradient is a dense part plus slices; XLA needs one tensor.
        return losses, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _training_losses(
        self, batch: Batch, keys: Tensor, scale: Tensor
    ) -> tuple[LossSums, Tensor]:
        """Returns the sums, and what to differentiate."""
        if not self._guided_alignment:
            hidden = self._model.hidden_states(batch, keys)
            losses = self._training_sums(hidden, batch, scale)
            return losses, losses.loss_sum
        hidden, attention_BHTS = self._model.hidden_states(
            batch, keys, with_attention=True
        )
        losses = self._training_sums(hidden, batch, scale)
        weight = self._guided_alignment / (2 if self._r_drop else 1)
        added = weight * alignment_cross_entropy(attention_BHTS[:, 0], batch[ALIGNMENT])
        # The gradient of `loss_sum` is scaled already; see `gradient_scale`.
        objective = losses.loss_sum + added * scale
        return losses._replace(loss_sum=losses.loss_sum + added), objective

    def _loss_only(self, batch: Batch) -> LossSums:
        hidden = self._model.hidden_states(batch, None)
        return self._loss_sums(hidden, batch, label_smoothing=0.0, gradient_scale=None)

    def _training_sums(self, hidden: Tensor, batch: Batch, scale: Tensor) -> LossSums:
        return self._loss_sums(
            hidden,
            batch,
            label_smoothing=self._label_smoothing,
            consistency=self._r_drop / 2,
            gradient_scale=scale,
        )

    def _loss_sums(self, hidden: Tensor, batch: Batch, **settings: Any) -> LossSums:
        bias = getattr(self._model, "output_bias", None)
        return label_smoothed_cross_entropy(
            hidden,
            tf.convert_to_tensor(self._model.output_embeddings),
            batch[DECODER_TARGET_TOKENS],
            batch[DECODER_LOSS_WEIGHTS],
            output_bias=None if bias is None else tf.convert_to_tensor(bias),
            **settings,
            logits_at_once=self._logits_at_once,
            compiled=self._compiled,
        )


def _paired(batch: Batch, keys: Tensor) -> tuple[Batch, Tensor]:
    """Returns each row twice, one after the other, with two dropout keys.

    Tokens have half the weight, so the sum over both is a mean. Row numbers are below
    2^31, so no two rows of the batch share a key; see `row_keys`.
    """
    twice = {name: tf.repeat(feature, 2, axis=0) for name, feature in batch.items()}
    twice[DECODER_LOSS_WEIGHTS] *= 0.5
    other = tf.bitwise.bitwise_xor(keys, tf.constant(2**31, tf.uint32))
    return twice, tf.reshape(tf.stack([keys, other], axis=1), [-1])


def _add(earlier: ReplicaSums, more: ReplicaSums) -> ReplicaSums:
    return tf.nest.map_structure(tf.add, earlier, more)


def _select_micro_batch(batch: Batch, i: Tensor | int) -> Batch:
    return {name: feature[i] for name, feature in batch.items()}
