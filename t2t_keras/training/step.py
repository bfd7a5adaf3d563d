"""Training step on all replicas: shards of a batch, and micro-batches of a shard.

A device that cannot hold its shard computes it as micro-batches: gradient accumulation.

Shapes: B rows of a batch, L length.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.training.devices import choices_for, current_device
from t2t_keras.training.losses import LossSums
from t2t_keras.training.strategy import num_processes
from t2t_keras.training.update import (
    ROW_NUMBERS,
    ReplicaUpdate,
    StepFlags,
    StepSums,
)
from t2t_keras.typing import (
    DECODER_TARGET_TOKENS,
    ENCODER_INPUT_TOKENS,
    Batch,
    BatchShape,
    BatchSize,
)

# Rows of the batches of an update are numbered from multiples of it, whatever rows of
# padding the number of replicas adds. Numbers stay below 2^31 with 2,048 batches.
_MAX_ROWS = 2**20


class Stepper:
    """Trains and evaluates a model on batches, under a distribution strategy.

    Each replica gets a shard of the batch, cut into micro-batches where it is too large
    to be computed at once. `ReplicaUpdate` is the computation of one replica. ADR 0010.

    Args:
        update: The computation of each replica. Its model was built under the strategy.
        strategy: The replicas.
        max_tokens: Maximum number of positions of one side computed at a time; a
            larger shard is cut into micro-batches. None for no limit.
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
        # Shapes that a program may be compiled for; None for any.
        self._trainable: frozenset[BatchShape] | None = None
        self._evaluable: frozenset[BatchShape] | None = None
        # Shapes of single batches that an update was made on.
        self._trained: set[BatchShape] = set()
        self._train, self._train_accumulated = (
            self._trace_distributed(update.train, update.train_signature, accumulated)
            for accumulated in (False, True)
        )
        self._evaluate = self._trace_distributed(
            lambda shard, _: update.evaluate(shard),
            update.evaluation_signature,
            accumulated=False,
        )

    def train(
        self, *batches: Batch, stop: bool = False, timed: bool = False
    ) -> StepSums:
        """Makes an update; returns the sums of all processes.

        Args:
            *batches: Features [B, L] as NumPy arrays: this process's rows of a global
                batch. Every process has the same number of rows. The gradients of
                several batches are added, one after another.
            stop: Whether this process was asked to stop; the sums tell all processes.
            timed: Whether to measure the time of the all-reduce.

        Raises:
            ValueError: If `allow_only` excludes the shape of a batch.
        """
        for batch in batches:
            check_compiled(batch, self._trainable, "to train on")
        return self._run_training(batches, StepFlags(stop=float(stop), timed=timed))

    def train_replica(self, shard: Batch) -> StepSums:
        """Makes an update with one replica's shard; for use inside a traced function.

        `train` runs this on all replicas. With one replica, an update is one program.

        Args:
            shard: Features [B, L] and `ROW_NUMBERS`, as `shard_batch` returns them.
        """
        return self._update.train(shard, StepFlags())

    def evaluate_replica(self, shard: Batch) -> StepSums:
        """Returns the sums of one replica's shard; for use inside a traced function.

        Args:
            shard: Features [B, L] of a batch that is not packed.
        """
        return self._update.evaluate(shard)

    def compile_step(self, *batches: Batch, max_tokens: int | None = None) -> StepSums:
        """Compiles the step by an update that changes no weight and no count.

        Args:
            *batches: See `train`.
            max_tokens: Limit for this call. Default: the limit of the stepper.
        """
        return self._run_training(batches, StepFlags(counts=False), max_tokens)

    def must_compile(self, batches: Sequence[Batch]) -> bool:
        """Returns whether `train` on these has to compile a program first.

        Without `allow_only` nothing is compiled. An update on several batches compiles
        what it needs itself.
        """
        if self._trainable is None or len(batches) > 1:
            return False
        return batch_shape(batches[0]) not in self._trained

    def allow_only(
        self, to_train: Iterable[BatchShape], to_evaluate: Iterable[BatchShape]
    ) -> None:
        """Makes batches of other shapes an error."""
        self._trainable, self._evaluable = frozenset(to_train), frozenset(to_evaluate)

    @property
    def num_local_replicas(self) -> int:
        """Number of devices of this process."""
        return self._num_local

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of positions of one side that a device computes at a time."""
        return self._max_tokens

    def computed_size(self, size: BatchSize) -> BatchSize:
        """Returns a batch's size including the rows of padding that even out shards."""
        rows = computed_rows(
            size.shape.rows,
            max(size.shape[1:]),
            num_replicas=self._strategy.num_replicas_in_sync,
            max_tokens=self._max_tokens,
        )
        return size._replace(shape=size.shape._replace(rows=rows))

    def evaluate(self, batch: Batch, max_tokens: int | None = None) -> StepSums:
        """Returns the sums of all processes, without dropout and smoothing.

        `max_tokens` is the limit for this call, by default that of the stepper.

        Raises:
            ValueError: If `allow_only` excludes the shape of the batch.
        """
        check_compiled(batch, self._evaluable, "to evaluate")
        count = self._micro_batch_count(batch, max_tokens)
        parts = []
        for i in range(count):
            part = self._distribute(
                batch, lambda shard, i=i: _select_micro_batch(shard, count, i)
            )
            parts.append(self._evaluate(part, StepFlags()))
        return tf.nest.map_structure(lambda *values: sum(values), *parts)

    def _run_training(
        self,
        batches: Sequence[Batch],
        flags: StepFlags,
        max_tokens: int | None = None,
    ) -> StepSums:
        counts = [self._micro_batch_count(batch, max_tokens) for batch in batches]
        if len(batches) == 1:
            self._trained.add(batch_shape(batches[0]))
        if counts == [1]:
            return self._train(self._distribute(batches[0]), flags)

        def part(number: int) -> Any:
            def cut(shard: Batch) -> Batch:
                rows = shard[ROW_NUMBERS] + number * _MAX_ROWS
                return micro_batches({**shard, ROW_NUMBERS: rows}, counts[number])

            return self._distribute(batches[number], cut)

        if len(batches) == 1:
            return self._train_accumulated(part(0), flags)
        start, add, train_last = self._train_several
        sums = start()
        for number in range(len(batches) - 1):
            sums = add(part(number), sums)
        return train_last(part(len(batches) - 1), flags, sums)

    def _micro_batch_count(self, batch: Batch, max_tokens: int | None) -> int:
        rows, *lengths = batch_shape(batch)
        shard_rows = -(-rows // self._num_local)
        return micro_batch_count(
            shard_rows, max(lengths), max_tokens or self._max_tokens
        )

    def _distribute(
        self, batch: Batch, cut: Callable[[Batch], Batch] | None = None
    ) -> Any:
        """Returns the shard of each local replica, passed through `cut` if given."""

        def make_shard(context: Any) -> Batch:
            replica = context.replica_id_in_sync_group
            part = shard_batch(batch, replica, self._num_local)
            return cut(part) if cut else part

        return self._strategy.experimental_distribute_values_from_function(make_shard)

    def _distributed_signature(
        self, batch_spec: dict[str, tf.TensorSpec], accumulated: bool
    ) -> dict[str, Any]:
        """Returns the type of a distributed batch of any size, accumulated or not.

        One fixed signature instead of tf.function's own relaxation of shapes, which
        traces the first shape separately and rounds its last bits differently. A
        resumed run has another first batch than the run that it continues.
        """
        ones, twos = (
            self._distribute(
                {
                    name: np.zeros(
                        [self._num_local * size] + [size] * (spec.shape.rank - 1),
                        spec.dtype.as_numpy_dtype,
                    )
                    for name, spec in batch_spec.items()
                },
                (lambda shard, n=size: _repeat(shard, n)) if accumulated else None,
            )
            for size in (1, 2)
        )
        return {
            name: tf.type_spec_from_value(ones[name]).most_specific_common_supertype(
                [tf.type_spec_from_value(twos[name])]
            )
            for name in ones
        }

    def _trace_distributed(
        self,
        replica_step: Callable,
        batch_spec: dict[str, tf.TensorSpec],
        accumulated: bool,
        *more: Any,
    ) -> Callable:
        """Returns a function of a distributed batch, with one trace for all shapes.

        `more` are the types of what it takes after batch and flags.
        """

        def run(*arguments: Any) -> StepSums:
            sums = self._strategy.run(replica_step, args=arguments)
            # Every replica has the sums over all replicas.
            return tf.nest.map_structure(
                lambda part: self._strategy.experimental_local_results(part)[0], sums
            )

        flag, number = tf.TensorSpec([], tf.bool), tf.TensorSpec([], tf.float32)
        flags_spec = StepFlags(counts=flag, stop=number, timed=flag)
        batch_type = self._distributed_signature(batch_spec, accumulated)
        signature = [batch_type, flags_spec, *more]
        return tf.function(run, input_signature=signature, autograph=False)

    @functools.cached_property
    def _train_several(self) -> tuple[Callable, Callable, Callable]:
        """Functions of an update on several batches: start, add, and train on the last.

        What they pass on are the sums of each local replica. The number of batches is
        open.
        """
        update, run = self._update, self._strategy.run
        start = tf.function(lambda: run(update.no_sums), autograph=False)
        sums_type = tf.nest.map_structure(tf.type_spec_from_value, start())
        signature = update.train_signature
        batch_type = self._distributed_signature(signature, accumulated=True)
        add = tf.function(
            lambda batch, sums: run(update.add, args=(batch, sums)),
            input_signature=[batch_type, sums_type],
            autograph=False,
        )
        train = self._trace_distributed(update.train, signature, True, sums_type)
        return start, add, train


def build_evaluator(model: keras.Model, max_tokens: int | None = None) -> Stepper:
    """Returns a stepper that evaluates a model, without XLA, and never trains it."""
    update = ReplicaUpdate(
        model,
        None,
        label_smoothing=0.0,
        seed=0,
        jit_compile=False,
        logits_at_once=choices_for(current_device()).logits_at_once,
    )
    return Stepper(update, tf.distribute.get_strategy(), max_tokens=max_tokens)


def loss_sums(
    stepper: Stepper,
    batches: Iterable[Batch],
    on_batch: Callable[[], object] = lambda: None,
) -> LossSums:
    """Returns the loss sums over batches, without dropout and label smoothing.

    `on_batch` is called after each batch.
    """
    total = [0.0, 0.0, 0.0]
    for batch in batches:
        sums = stepper.evaluate(batch).losses
        total = [a + float(b) for a, b in zip(total, sums, strict=True)]
        on_batch()
    return LossSums(*total)


def shard_batch(batch: Batch, replica: int, num_local: int) -> Batch:
    """Returns the rows of a replica: equal shards, in order, padded at the end.

    Rows of padding have weight 0, so the number of replicas does not change the
    meaning of a batch.

    Args:
        batch: Features [B, L] as NumPy arrays, all with the same B: the rows of this
            process. Every process has the same number of rows.
        replica: Number of the replica among those of all processes, from 0.
        num_local: Number of replicas of each process.

    Returns:
        Features [ceil(B / num_local), L], and `ROW_NUMBERS`.
    """
    total = len(next(iter(batch.values())))
    rows = -(-total // num_local)
    first = replica % num_local * rows
    shard = {
        name: append_rows(np.asarray(feature)[first : first + rows], rows)
        for name, feature in batch.items()
    }
    numbers = np.arange(replica * rows, (replica + 1) * rows, dtype=np.int32)
    return {**shard, ROW_NUMBERS: numbers}


def micro_batch_count(rows: int, length: int, max_tokens: int | None) -> int:
    """Returns the number of micro-batches that a replica's shard is computed in.

    They are equal in size, so the last may end with rows of padding. Up to twice the
    necessary number is tried, and the number with the fewest such rows wins.

    Args:
        rows: Number of rows of the shard.
        length: Length of its longer side, padding counted.
        max_tokens: Maximum number of positions of one side at a time; None for no
            limit.

    >>> micro_batch_count(rows=10, length=50, max_tokens=200)  # not 3 parts of 4 rows
    5
    """
    if max_tokens is None:
        return 1
    fewest = -(-rows // max(1, min(rows, max_tokens // length)))
    return min(range(fewest, 2 * fewest), key=lambda count: count * -(-rows // count))


def computed_rows(
    rows: int, length: int, *, num_replicas: int, max_tokens: int | None
) -> int:
    """Returns the number of rows computed for a batch, rows of padding included.

    Args:
        rows: Number of rows of the global batch.
        length: Length of its longer side, padding counted.
        num_replicas: Number of replicas of all processes.
        max_tokens: See `micro_batch_count`.

    >>> computed_rows(rows=10, length=50, num_replicas=4, max_tokens=None)
    12
    """
    shard_rows = -(-rows // num_replicas)
    count = micro_batch_count(shard_rows, length, max_tokens)
    return num_replicas * count * -(-shard_rows // count)


def micro_batches(shard: Batch, count: int) -> Batch:
    """Returns a shard cut into micro-batches, features [count, ceil(B / count), L].

    The last micro-batch is filled up with rows of padding, whose row number is 0.
    """
    rows = -(-len(shard[ROW_NUMBERS]) // count)
    return {
        name: append_rows(feature, count * rows).reshape(
            count, rows, *feature.shape[1:]
        )
        for name, feature in shard.items()
    }


def append_rows(feature: np.ndarray, rows: int) -> np.ndarray:
    """Returns a feature with rows of 0 appended, `rows` in total."""
    missing = rows - len(feature)
    return np.pad(feature, [(0, missing)] + [(0, 0)] * (feature.ndim - 1))


def batch_shape(batch: Batch) -> BatchShape:
    """Returns the shape of a batch of arrays."""
    rows, source_length = batch[ENCODER_INPUT_TOKENS].shape
    return BatchShape(rows, source_length, batch[DECODER_TARGET_TOKENS].shape[1])


def check_compiled(
    batch: Batch, compiled: Collection[BatchShape] | None, use: str
) -> None:
    """Raises an error if a program would have to be compiled for a batch.

    Args:
        batch: Features [B, L].
        compiled: Shapes that a program is compiled for; None to allow all shapes.
        use: Purpose of the batch for the message, "to train on" or "to evaluate".

    Raises:
        ValueError: If the shape is not one of `compiled`.
    """
    shape = batch_shape(batch)
    if compiled is not None and shape not in compiled:
        shapes = sorted(map(tuple, compiled))
        raise ValueError(
            f"A batch {use} must be of one of the shapes {shapes}, which programs are "
            f"compiled for. Received: {tuple(shape)}"
        )


def _select_micro_batch(shard: Batch, count: int, i: int) -> Batch:
    return {name: part[i] for name, part in micro_batches(shard, count).items()}


def _repeat(shard: Batch, count: int) -> Batch:
    return {name: np.stack([part] * count) for name, part in shard.items()}
