"""One update: forward, loss, gradients, Adam, on as many replicas as there are.

Shapes: B rows of a batch, T target length, V vocabulary.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.training.batch_shapes import Shape, check_compiled, shape_of
from t2t_keras.training.losses import LossSums, label_smoothed_cross_entropy
from t2t_keras.training.optimizer import SummedGradientAdam
from t2t_keras.training.shares import (
    ROW_NUMBERS,
    micro_batch_count,
    micro_batches,
    share_of,
)
from t2t_keras.training.strategy import num_processes
from t2t_keras.typing import Batch, Tensor


class StepSums(NamedTuple):
    """What one update, or one batch of an evaluation, adds up to.

    Attributes:
        losses: Sums over all replicas.
        gradient_norm: float32 scalar, of the mean gradient over tokens; 0 where no
            gradient was taken.
        finite: float32 scalar, 0 where loss or gradient was not a finite number, so
            that the update was left out; else 1. An overflow that a smaller loss
            scale may mend counts as finite.
        stops: float32 scalar, how many replicas were asked to stop.
        reduce_seconds: float32 scalar, from one replica's own gradients to the norm of
            all: the transfer, and the wait for slower replicas. 0 where there is one.
    """

    losses: LossSums
    gradient_norm: Tensor
    finite: Tensor
    stops: Tensor = 0.0
    reduce_seconds: Tensor = 0.0


class Ask(NamedTuple):
    """What is asked of a step besides its batch, the same on all local replicas.

    Attributes:
        counts: bool scalar; False to leave weights, moments and counts alone.
        stop: float32 scalar, 1 where this process was asked to stop.
    """

    counts: Any = True
    stop: Any = 0.0


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


class Stepper:
    """Trains and evaluates a model on batches, under a distribution strategy.

    XLA goes round forward and gradient only: `jit_compile` round the whole step, or
    round `strategy.run`, fails as soon as there are two replicas. Gradients are of
    the loss sum, added up over micro-batches and replicas and divided once by the
    token count of all. ADR 0010.

    Args:
        model: Has `hidden_states(batch, dropout_keys)` [B, T, D], whose product with
            its `output_embeddings` [V, D] are the logits.
        optimizer: Built; only used by `train`.
        strategy: Where model and optimizer were made.
        label_smoothing: Epsilon of the training loss; evaluation has none.
        seed: Of dropout.
        jit_compile: Whether XLA compiles forward and gradient.
        max_tokens: Most positions of one side that a replica computes at a time; a
            larger share is cut into micro-batches. None for no limit.
        packed: Whether several pairs share a row of the batches to train on. Those
            to evaluate are never packed.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: SummedGradientAdam,
        strategy: tf.distribute.Strategy,
        *,
        label_smoothing: float,
        seed: int,
        jit_compile: bool,
        max_tokens: int | None = None,
        packed: bool = False,
    ):
        self._model = model
        self._optimizer = optimizer
        self._strategy = strategy
        self._num_local = strategy.num_replicas_in_sync // num_processes(strategy)
        self._label_smoothing = label_smoothing
        self._seed = seed
        self._max_tokens = max_tokens
        # Shapes that there are programs for; None while more may come.
        self._trainable: frozenset[Shape] | None = None
        self._evaluable: frozenset[Shape] | None = None
        # One trace serves every bucket; XLA still compiles a program for each.
        train_spec = batch_signature(packed=packed)
        evaluation_spec = batch_signature(packed=False)
        keys_spec = tf.TensorSpec([None], tf.uint32)
        scale_spec = tf.TensorSpec([], tf.float32)
        self._gradients = tf.function(
            self._loss_gradients,
            input_signature=[train_spec, keys_spec, scale_spec],
            jit_compile=jit_compile or None,
            autograph=False,
        )
        self._losses = tf.function(
            self._loss_only,
            input_signature=[evaluation_spec],
            jit_compile=jit_compile or None,
            autograph=False,
        )
        self._train, self._train_accumulated = (
            self._distributed(self._train_replica, train_spec, rank) for rank in (2, 3)
        )
        self._evaluate = self._distributed(
            self._evaluate_replica, evaluation_spec, rank=2
        )

    def train(self, batch: Batch, *, stop: bool = False) -> StepSums:
        """Makes an update; returns the sums of all processes.

        Args:
            batch: Features [B, L] as NumPy arrays: this process's rows of a global
                batch, as many as each other's.
            stop: Whether this process was asked to stop, which all are told.

        Raises:
            ValueError: If the batch is of a shape that `allow_only` left out.
        """
        check_compiled(batch, self._trainable, "to train on")
        return self._run_training(batch, Ask(stop=float(stop)))

    def train_replica(self, share: Batch) -> StepSums:
        """Makes an update with one replica's share, as a function to be traced.

        `train` is this on all replicas; where there is one, an update is one program.

        Args:
            share: Features [B, L] and `ROW_NUMBERS`, as `share_of` returns them.
        """
        return self._train_replica(share, Ask())

    def rehearse(self, batch: Batch) -> StepSums:
        """Goes through an update that changes nothing, so that it is compiled."""
        return self._run_training(batch, Ask(counts=False))

    def allow_only(
        self, to_train: Iterable[Shape], to_evaluate: Iterable[Shape]
    ) -> None:
        """Makes batches of other shapes an error."""
        self._trainable, self._evaluable = frozenset(to_train), frozenset(to_evaluate)

    @property
    def num_local_replicas(self) -> int:
        """On how many devices of this process it computes."""
        return self._num_local

    def evaluate(self, batch: Batch) -> StepSums:
        """Returns the sums of all processes, without dropout and smoothing.

        Raises:
            ValueError: If the batch is of a shape that `allow_only` left out.
        """
        check_compiled(batch, self._evaluable, "to evaluate")
        count = self._micro_batch_count(batch)
        parts = []
        for i in range(count):
            part = self._spread(batch, lambda share, i=i: _part(share, count, i))
            parts.append(self._evaluate(part, Ask()))
        return tf.nest.map_structure(lambda *values: sum(values), *parts)

    def _run_training(self, batch: Batch, ask: Ask) -> StepSums:
        count = self._micro_batch_count(batch)
        if count == 1:
            return self._train(self._spread(batch), ask)
        cut = self._spread(batch, lambda share: micro_batches(share, count))
        return self._train_accumulated(cut, ask)

    def _micro_batch_count(self, batch: Batch) -> int:
        rows = -(-shape_of(batch)[0] // self._num_local)
        return micro_batch_count(rows, max(shape_of(batch)[1:]), self._max_tokens)

    def _spread(self, batch: Batch, cut: Callable[[Batch], Batch] | None = None) -> Any:
        """Returns a batch with each replica's share of it, maybe cut further."""

        def share(context: Any) -> Batch:
            replica = context.replica_id_in_sync_group
            part = share_of(batch, replica, self._num_local)
            return cut(part) if cut else part

        return self._strategy.experimental_distribute_values_from_function(share)

    def _spread_signature(
        self, batch_spec: dict[str, tf.TensorSpec], rank: int
    ) -> dict[str, Any]:
        """Returns the type of a spread batch of any size.

        One fixed signature, and not tf.function's own relaxing of shapes: that
        traces once more for the first shape it sees, and rounds otherwise in the
        last bits there. A run that goes on has another first batch than the run
        that it continues.
        """
        ones, twos = (
            self._spread(
                {
                    name: np.zeros(
                        [self._num_local * size, size], spec.dtype.as_numpy_dtype
                    )
                    for name, spec in batch_spec.items()
                },
                (lambda share, n=size: _repeated(share, n)) if rank == 3 else None,
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
        self, replica_step: Callable, batch_spec: dict[str, tf.TensorSpec], rank: int
    ) -> Callable:
        """Returns a traced function of a spread batch, for all shapes alike."""

        def run(batch: Batch, ask: Ask) -> StepSums:
            sums = self._strategy.run(replica_step, args=(batch, ask))
            # All replicas have the sums of all.
            return tf.nest.map_structure(
                lambda part: self._strategy.experimental_local_results(part)[0], sums
            )

        ask_spec = Ask(tf.TensorSpec([], tf.bool), tf.TensorSpec([], tf.float32))
        signature = [self._spread_signature(batch_spec, rank), ask_spec]
        return tf.function(run, input_signature=signature, autograph=False)

    def _train_replica(self, batch: Batch, ask: Ask) -> StepSums:
        losses, gradients = self._summed_gradients(batch)
        before = self._seconds_at(losses.loss_sum)
        # A copy on this device: what has no device cannot be reduced.
        stop = tf.identity(ask.stop)
        *gradients, loss_sum, log_loss_sum, token_count, stops = self._all_reduced(
            [*gradients, *losses, stop]
        )
        # A batch of padding only divides 0 by 1, not by 0.
        divisor = tf.maximum(token_count, 1.0) * self._loss_scale()
        norm = tf.linalg.global_norm(gradients) / divisor
        reduce_seconds = tf.cast(self._seconds_at(norm) - before, tf.float32)
        finite = tf.math.is_finite(loss_sum) & tf.math.is_finite(norm)
        mendable = tf.math.is_finite(loss_sum) & self._optimizer.can_scale_less()
        self._optimizer.apply_summed(
            gradients, divisor, finite=finite, counts=ask.counts
        )
        return StepSums(
            LossSums(loss_sum, log_loss_sum, token_count),
            norm,
            tf.cast(finite | mendable, tf.float32),
            stops,
            reduce_seconds,
        )

    def _evaluate_replica(self, batch: Batch, ask: Ask) -> StepSums:
        del ask
        batch = dict(batch)
        del batch[ROW_NUMBERS]
        sums = self._all_reduced(list(self._losses(batch)))
        zero = tf.constant(0.0)
        return StepSums(LossSums(*sums), zero, tf.constant(1.0), zero, zero)

    def _seconds_at(self, number: Tensor) -> Tensor:
        """Returns a clock's time when a scalar is there; 0 for a single replica."""
        if self._strategy.num_replicas_in_sync == 1:
            return tf.constant(0.0, tf.float64)
        # An accelerator works on its own: on the host a number is there when it has
        # been computed.
        with tf.device("CPU:0"), tf.control_dependencies([tf.identity(number)]):
            return tf.timestamp()

    def _all_reduced(self, tensors: list[Tensor]) -> list[Tensor]:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)

    def _summed_gradients(self, batch: Batch) -> tuple[LossSums, list[Tensor]]:
        """Returns sums over this replica's share, [B, L] or [count, B, L]."""
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
            batch["decoder_target_tokens"],
            batch["decoder_loss_weights"],
            label_smoothing=label_smoothing,
            gradient_scale=gradient_scale,
        )


def _part(share: Batch, count: int, i: int) -> Batch:
    return {name: part[i] for name, part in micro_batches(share, count).items()}


def _at(batch: Batch, i: Tensor | int) -> Batch:
    return {name: feature[i] for name, feature in batch.items()}


def _repeated(share: Batch, count: int) -> Batch:
    return {name: np.stack([part] * count) for name, part in share.items()}
