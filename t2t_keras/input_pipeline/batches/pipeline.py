"""Training and evaluation batches of a tokenized corpus; exact resume, prefetch.

`TrainingBatches` are endless, start at any position, and plan ahead in a thread.
`EvaluationBatches` hold every pair once.
"""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import tensorflow as tf

from t2t_keras.input_pipeline.batches.batching import (
    GatheredBatch,
    PlannedSize,
    check_batch,
    check_fits,
    gather_batch,
    make_batch,
    planned_dataset,
)
from t2t_keras.input_pipeline.batches.batching_strategy import BatchingStrategy
from t2t_keras.input_pipeline.batches.bucketing import bucket_shapes
from t2t_keras.input_pipeline.batches.plan import (
    ALL_ROWS,
    PlannedBatch,
    WorkerShard,
    empty_batch,
    plan_evaluation,
)
from t2t_keras.input_pipeline.records.tokenized import (
    SentencePairs,
    TokenizedCorpus,
)
from t2t_keras.typing import Batch, BatchShape, BatchSize

_Element = TypeVar("_Element")


@dataclasses.dataclass(frozen=True)
class DataPosition:
    """Position of the next training batch: all that exact resume needs of the data.

    Attributes:
        epoch: From 0.
        position: Number of the batch, from 0, in its shuffle window.
        window: Number of that window in the epoch; 0 in an epoch of one window.
    """

    epoch: int = 0
    position: int = 0
    window: int = 0

    def __post_init__(self):
        if min(self.epoch, self.position, self.window) < 0:
            raise ValueError(f"No number must be negative. Received: {self}")

    def to_fields(self) -> dict[str, int]:
        """Returns the fields; without the window where an epoch has but one."""
        fields = dataclasses.asdict(self)
        if not self.window:
            del fields["window"]
        return fields


class TrainingBatches:
    """The endless batches of training, from any position on.

    The batch at a position does not depend on the start: the order is a function of
    seed, epoch and position alone.

    Args:
        corpus: The training pairs.
        strategy: Plans and makes their batches.
        seed: Seed of the order, in [0, 2**64).
        start: Position of the first batch to return.
        shard: Rows of each batch that this process makes. It reads no others.

    Raises:
        ValueError: If `seed` is out of range, or `start` is after the end of an epoch.
    """

    def __init__(
        self,
        corpus: SentencePairs,
        strategy: BatchingStrategy,
        *,
        seed: int,
        start: DataPosition = DataPosition(),
        shard: WorkerShard = ALL_ROWS,
    ):
        self._corpus = corpus
        self._strategy = strategy
        self._seed = seed
        self._start = start
        self._shard = shard
        # Number of batches by epoch and window; known once the last one is drawn.
        self._batch_counts: dict[tuple[int, int], int] = {}
        # Planned at once, for the error, and kept: planning 36 million pairs takes
        # seconds.
        self._planned: Iterator[PlannedBatch] | None = self._plan()
        first = next(self._planned, None)
        if first is None:
            count = self._batch_counts[start.epoch, start.window]
            raise ValueError(
                f"start.position must be below the {count} batches of epoch "
                f"{start.epoch}. Received: {start.position}"
            )
        self._planned = itertools.chain([first], self._planned)

    def __iter__(self) -> Iterator[tuple[Batch, BatchSize]]:
        """Yields batches, and their sizes with the rows of all processes."""
        elements: Any = self._dataset().as_numpy_iterator()
        for batch, size in elements:
            *shape, source_tokens, target_tokens = size.tolist()
            yield batch, BatchSize(BatchShape(*shape), source_tokens, target_tokens)

    def dataset(self) -> tf.data.Dataset:
        """Returns the batches as a dataset; each iteration begins at the start.

        It is for `Model.fit`, for a loop, or for
        `tf.distribute.Strategy.distribute_datasets_from_function`.
        """
        return self._dataset().map(lambda batch, _: batch)

    def padding_batch(self, shape: BatchShape) -> Batch:
        """Returns this process's rows of a batch of padding alone."""
        return self._make_arrays(self._shard.select(empty_batch(shape)))

    def whole_batch(self, count: int) -> Batch:
        """Returns again the batch after the first `count`, with all workers' rows."""
        position = self.position_after(count)
        plan = self._strategy.plan(self._seed, position.epoch, position.window)
        return self._make_arrays(next(itertools.islice(plan, position.position, None)))

    def position_after(self, count: int) -> DataPosition:
        """Returns the position after the first `count` batches that were drawn."""
        own, position = self._start_window, self._start.position + count
        while position >= self._batch_counts.get(own, position + 1):
            position -= self._batch_counts[own]
            own = self._window_after(own)
        return DataPosition(own[0], position, own[1])

    def _dataset(self) -> tf.data.Dataset:
        """Returns this process's rows of batches, and the size of each whole batch."""

        def plan() -> Iterator[PlannedSize]:
            plan, self._planned = self._planned or self._plan(), None
            for planned in plan:
                lengths = self._corpus.pair_lengths(planned.indices)
                check_fits(lengths, planned)
                tokens = map(int, lengths.sum(axis=0))
                yield self._shard.select(planned), BatchSize(planned.shape, *tokens)

        return planned_dataset(self._corpus, plan, self._strategy.make)

    def _make_arrays(self, planned: PlannedBatch) -> Batch:
        return _make_arrays(self._corpus, planned, self._strategy.make)

    @property
    def _start_window(self) -> tuple[int, int]:
        return self._start.epoch, self._start.window

    def _window_after(self, own: tuple[int, int]) -> tuple[int, int]:
        """Returns epoch and window after these."""
        epoch, window = own
        if window + 1 < self._strategy.num_windows:
            return epoch, window + 1
        return epoch + 1, 0

    def _plan(self) -> Iterator[PlannedBatch]:
        own, first = self._start_window, self._start.position
        plan = self._strategy.plan(self._seed, *own)
        while True:
            plan = yield from self._window(own, plan, first)
            if first >= self._batch_counts[own]:
                return
            own, first = self._window_after(own), 0

    def _window(
        self, own: tuple[int, int], plan: Iterator[PlannedBatch], first: int
    ) -> Generator[PlannedBatch, None, Iterator[PlannedBatch]]:
        """Yields a window's batches from `first` on; returns the next window's plan.

        Planning the next window starts, in a thread, once there is a batch to train on.
        """

        def next_plan() -> Iterator[PlannedBatch]:
            return self._strategy.plan(self._seed, *self._window_after(own))

        get_next_plan = next_plan
        pending = None
        count = 0
        for planned in plan:
            if pending is not None:
                yield pending
                if get_next_plan is next_plan:
                    get_next_plan = start_in_thread(next_plan)
            pending = planned if count >= first else None
            count += 1
        # Before the last batch is yielded: the position after it is in the next window.
        self._batch_counts[own] = count
        if pending is not None:
            yield pending
        return get_next_plan()


class EvaluationBatches:
    """The batches of an evaluation: every pair once, small shapes first, a row each.

    Args:
        corpus: The pairs. The shapes are chosen from their lengths.
        max_shapes: Maximum number of shapes; see `bucket_shapes`.
        tokens_per_batch: Maximum positions of one side of a batch, padding included.
        shard: Rows of each batch that this process makes.

    Raises:
        UserError: If `tokens_per_batch` is too small for the longest sentence.
    """

    def __init__(
        self,
        corpus: TokenizedCorpus,
        *,
        max_shapes: int,
        tokens_per_batch: int,
        shard: WorkerShard = ALL_ROWS,
    ):
        shapes = bucket_shapes(
            corpus.lengths, max_shapes=max_shapes, tokens_per_batch=tokens_per_batch
        )
        self._corpus = corpus
        self._plan = list(map(shard.select, plan_evaluation(corpus.lengths, shapes)))

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[Batch]:
        return map(self._make_arrays, self._plan)

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """The shapes of this process's batches, from small to large."""
        return tuple(dict.fromkeys(planned.shape for planned in self._plan))

    def padding_batch(self, shape: BatchShape) -> Batch:
        """Returns a batch of padding alone."""
        return self._make_arrays(empty_batch(shape))

    def _make_arrays(self, planned: PlannedBatch) -> Batch:
        return _make_arrays(self._corpus, planned, make_batch)


def _make_arrays(
    corpus: SentencePairs,
    planned: PlannedBatch,
    make: Callable[[GatheredBatch], Batch],
) -> Batch:
    """Returns the features of one planned batch as NumPy arrays, checked."""
    batch = make(gather_batch(corpus, planned))
    check_batch(batch)
    return {name: feature.numpy() for name, feature in batch.items()}


def start_in_thread(
    start: Callable[[], Iterator[_Element]],
) -> Callable[[], Iterator[_Element]]:
    """Starts an iteration in a thread, which computes no more than its first element.

    The thread is a daemon: a program that ends does not wait for it.

    Args:
        start: Returns an iterator, possibly an empty one. Its first element may take
            long.

    Returns:
        A function that waits for the first element and returns an iterator over all of
        them, or raises the exception of the thread.
    """
    result: Future[Iterator[_Element]] = Future()

    def run() -> None:
        try:
            elements = start()
            result.set_result(
                itertools.chain(list(itertools.islice(elements, 1)), elements)
            )
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="planning", daemon=True).start()
    return result.result
