"""Updates and evaluations on as many replicas as there are.

Shapes: B rows of a batch, L length.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.training.shares import (
    check_compiled,
    computed_rows,
    micro_batch_count,
    micro_batches,
    shape_of,
    share_of,
)
from t2t_keras.training.strategy import num_processes
from t2t_keras.training.update import (
    ReplicaUpdate,
    StepFlags,
    StepSums,
)
from t2t_keras.typing import Batch, BatchShape, BatchSize


class Stepper:
    """Trains and evaluates a model on batches, under a distribution strategy.

    A batch is cut into the replicas' shares, and theirs maybe into micro-batches; what
    a replica computes of it is the update. ADR 0010.

    Args:
        update: What each replica does. Its model was made under the strategy.
        strategy: The replicas.
        max_tokens: Most positions of one side that a replica computes at a time; a
            larger share is cut into micro-batches. None for no limit.
    """

    def __init__(
        self,
        update: ReplicaUpdate,
        strategy: tf.distribute.Strategy,
        *,
        max_tokens: int | None = None,
    ):
        self._update = update
        self._strategy = strategy
        self._num_local = strategy.num_replicas_in_sync // num_processes(strategy)
        self._max_tokens = max_tokens
        # Shapes that there are programs for; None while more may come.
        self._trainable: frozenset[BatchShape] | None = None
        self._evaluable: frozenset[BatchShape] | None = None
        self._train, self._train_accumulated = (
            self._distributed(update.train, update.train_signature, rank)
            for rank in (2, 3)
        )
        self._evaluate = self._distributed(
            lambda share, _: update.evaluate(share),
            update.evaluation_signature,
            rank=2,
        )

    def train(
        self, batch: Batch, *, stop: bool = False, timed: bool = False
    ) -> StepSums:
        """Makes an update; returns the sums of all processes.

        Args:
            batch: Features [B, L] as NumPy arrays: this process's rows of a global
                batch, as many as each other's.
            stop: Whether this process was asked to stop, which all are told.
            timed: Whether to time what several replicas do together.

        Raises:
            ValueError: If the batch is of a shape that `allow_only` left out.
        """
        check_compiled(batch, self._trainable, "to train on")
        return self._run_training(batch, StepFlags(stop=float(stop), timed=timed))

    def train_replica(self, share: Batch) -> StepSums:
        """Makes an update with one replica's share, as a function to be traced.

        `train` is this on all replicas; where there is one, an update is one program.

        Args:
            share: Features [B, L] and `ROW_NUMBERS`, as `share_of` returns them.
        """
        return self._update.train(share, StepFlags())

    def rehearse(self, batch: Batch, max_tokens: int | None = None) -> StepSums:
        """Goes through an update that changes nothing, so that it is compiled.

        Args:
            batch: See `train`.
            max_tokens: In place of the stepper's own; None for that.
        """
        return self._run_training(batch, StepFlags(counts=False), max_tokens)

    def allow_only(
        self, to_train: Iterable[BatchShape], to_evaluate: Iterable[BatchShape]
    ) -> None:
        """Makes batches of other shapes an error."""
        self._trainable, self._evaluable = frozenset(to_train), frozenset(to_evaluate)

    @property
    def num_local_replicas(self) -> int:
        """On how many devices of this process it computes."""
        return self._num_local

    @property
    def max_tokens(self) -> int | None:
        """Most positions of one side that a device computes at a time."""
        return self._max_tokens

    def computed(self, size: BatchSize) -> BatchSize:
        """Returns a batch's size with the rows of padding that make shares even."""
        rows = computed_rows(
            size.shape.rows,
            max(size.shape[1:]),
            num_replicas=self._strategy.num_replicas_in_sync,
            max_tokens=self._max_tokens,
        )
        return size._replace(shape=size.shape._replace(rows=rows))

    def evaluate(self, batch: Batch, max_tokens: int | None = None) -> StepSums:
        """Returns the sums of all processes, without dropout and smoothing.

        Args:
            batch: See `train`.
            max_tokens: In place of the stepper's own; None for that.

        Raises:
            ValueError: If the batch is of a shape that `allow_only` left out.
        """
        check_compiled(batch, self._evaluable, "to evaluate")
        count = self._micro_batch_count(batch, max_tokens)
        parts = []
        for i in range(count):
            part = self._spread(batch, lambda share, i=i: _part(share, count, i))
            parts.append(self._evaluate(part, StepFlags()))
        return tf.nest.map_structure(lambda *values: sum(values), *parts)

    def _run_training(
        self, batch: Batch, flags: StepFlags, max_tokens: int | None = None
    ) -> StepSums:
        count = self._micro_batch_count(batch, max_tokens)
        if count == 1:
            return self._train(self._spread(batch), flags)
        cut = self._spread(batch, lambda share: micro_batches(share, count))
        return self._train_accumulated(cut, flags)

    def _micro_batch_count(self, batch: Batch, max_tokens: int | None) -> int:
        rows, *lengths = shape_of(batch)
        share = -(-rows // self._num_local)
        return micro_batch_count(share, max(lengths), max_tokens or self._max_tokens)

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

        def run(batch: Batch, flags: StepFlags) -> StepSums:
            sums = self._strategy.run(replica_step, args=(batch, flags))
            # All replicas have the sums of all.
            return tf.nest.map_structure(
                lambda part: self._strategy.experimental_local_results(part)[0], sums
            )

        flag, number = tf.TensorSpec([], tf.bool), tf.TensorSpec([], tf.float32)
        flags_spec = StepFlags(counts=flag, stop=number, timed=flag)
        signature = [self._spread_signature(batch_spec, rank), flags_spec]
        return tf.function(run, input_signature=signature, autograph=False)


def _part(share: Batch, count: int, i: int) -> Batch:
    return {name: part[i] for name, part in micro_batches(share, count).items()}


def _repeated(share: Batch, count: int) -> Batch:
    return {name: np.stack([part] * count) for name, part in share.items()}
