"""Datasets of batches from a tokenized corpus, the next epoch planned ahead."""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from t2t_keras.input_pipeline.batches.batching import check_fits, gather_batch
from t2t_keras.input_pipeline.batches.batching_strategy import BatchingStrategy
from t2t_keras.input_pipeline.batches.features import check_batch
from t2t_keras.input_pipeline.batches.plan import (
    ALL_ROWS,
    PlannedBatch,
    WorkerShare,
    padding_only,
)
from t2t_keras.input_pipeline.batches.planned_dataset import (
    PlannedSize,
    planned_dataset,
)
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus
from t2t_keras.typing import Batch, BatchShape, BatchSize

_Element = TypeVar("_Element")


def begun(start: Callable[[], Iterator[_Element]]) -> Callable[[], Iterator[_Element]]:
    """Begins an iteration in a thread, and goes no further than its first element.

    The thread is a daemon: a program that ends does not wait for it.

    Args:
        start: Returns what to iterate over. The first element may take long, and may
            be none.

    Returns:
        What waits until then and returns all elements, or raises what was raised.
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


@dataclasses.dataclass(frozen=True)
class DataPosition:
    """The next batch to train on: all that resuming has to remember of data."""

    epoch: int = 0
    position: int = 0

    def __post_init__(self):
        if self.epoch < 0 or self.position < 0:
            raise ValueError(
                "epoch and position must not be negative. "
                f"Received: epoch={self.epoch}, position={self.position}"
            )


@dataclasses.dataclass(frozen=True)
class BatchingSummary:
    """How an epoch falls into batches, for the report at the start."""

    pairs: int
    source_tokens: int
    target_tokens: int
    batches_per_epoch: int
    num_shapes: int
    padding_share: float
    """Share of the positions computed, of both sides, that hold no token; in [0, 1)."""
    mean_source_tokens: float
    """Real source tokens a batch; the paper reports about 25,000."""
    mean_target_tokens: float
    packed: bool

    def describe(self) -> str:
        """Returns the summary in words, on three lines."""
        shapes = "1 shape" if self.num_shapes == 1 else f"{self.num_shapes} shapes"
        rows = "several pairs in a row" if self.packed else "a pair in a row"
        return (
            f"{self.pairs:,} pairs: {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens\n"
            f"{self.batches_per_epoch:,} batches an epoch, on average "
            f"{self.mean_source_tokens:,.0f} source and "
            f"{self.mean_target_tokens:,.0f} target tokens each\n"
            f"{shapes}, {rows}; {1 - self.padding_share:.1%} of all positions are "
            "real tokens"
        )


class TrainingBatches:
    """The endless batches of training, and where they are.

    What comes from a position on does not depend on where one started: the order
    is a function of seed, epoch and position alone.

    Args:
        corpus: What to train on.
        strategy: How it falls into batches.
        seed: Of the order, in [0, 2**64).
        start: The first batch to return.
        share: Which rows of each batch this process makes. It reads no others.

    Raises:
        ValueError: If `seed` is out of range, or `start` lies behind the end of an
            epoch.
    """

    def __init__(
        self,
        corpus: TokenizedCorpus,
        strategy: BatchingStrategy,
        *,
        seed: int,
        start: DataPosition = DataPosition(),
        share: WorkerShare = ALL_ROWS,
    ):
        self._corpus = corpus
        self._strategy = strategy
        self._seed = seed
        self._start = start
        self._share = share
        # By epoch, how many batches it has; known from when its last one is drawn.
        self._batch_counts: dict[int, int] = {}
        # Planned at once, for the error, and kept: of 36 million pairs, it takes
        # half a minute.
        self._planned: Iterator[PlannedBatch] | None = self._plan()
        first = next(self._planned, None)
        if first is None:
            raise ValueError(
                f"start.position must be below the {self._batch_counts[start.epoch]} "
                f"batches of epoch {start.epoch}. Received: {start.position}"
            )
        self._planned = itertools.chain([first], self._planned)

    def __iter__(self) -> Iterator[tuple[Batch, BatchSize]]:
        """Yields batches, and how large they are with the rows of all processes."""
        elements: Any = self._dataset().as_numpy_iterator()
        for batch, size in elements:
            *shape, source_tokens, target_tokens = size.tolist()
            yield batch, BatchSize(BatchShape(*shape), source_tokens, target_tokens)

    def dataset(self) -> tf.data.Dataset:
        """Returns the batches; each iteration begins at the start.

        `Model.fit` takes it, `tf.distribute.Strategy.distribute_datasets_from_function`
        and any loop.
        """
        return self._dataset().map(lambda batch, _: batch)

    def of_padding(self, shape: BatchShape) -> Batch:
        """Returns this process's rows of a batch that no pair is in."""
        return self._made(self._share.of(padding_only(shape)))

    def whole_batch(self, count: int) -> Batch:
        """Returns, made once more, all rows of the batch that `count` came before."""
        position = self.position_after(count)
        plan = self._strategy.plan(self._seed, position.epoch)
        return self._made(next(itertools.islice(plan, position.position, None)))

    def position_after(self, count: int) -> DataPosition:
        """Returns the position after `count` batches of those that were drawn."""
        epoch, position = self._start.epoch, self._start.position + count
        while position >= self._batch_counts.get(epoch, position + 1):
            position -= self._batch_counts[epoch]
            epoch += 1
        return DataPosition(epoch, position)

    def _dataset(self) -> tf.data.Dataset:
        """Returns the batches of this process, each with the size of the whole."""

        def plan() -> Iterator[PlannedSize]:
            plan, self._planned = self._planned or self._plan(), None
            for planned in plan:
                lengths = self._corpus.lengths[planned.indices]
                check_fits(lengths, planned)
                tokens = map(int, lengths.sum(axis=0))
                yield self._share.of(planned), BatchSize(planned.shape, *tokens)

        return planned_dataset(self._corpus, plan, self._strategy.make)

    def _made(self, planned: PlannedBatch) -> Batch:
        batch = self._strategy.make(gather_batch(self._corpus, planned))
        check_batch(batch)
        return {name: feature.numpy() for name, feature in batch.items()}

    def _plan(self) -> Iterator[PlannedBatch]:
        first = self._start.position
        plan = self._strategy.plan(self._seed, self._start.epoch)
        for epoch in itertools.count(self._start.epoch):
            plan = yield from self._epoch(epoch, plan, first)
            if first >= self._batch_counts[epoch]:
                return
            first = 0

    def _epoch(
        self, epoch: int, plan: Iterator[PlannedBatch], first: int
    ) -> Generator[PlannedBatch, None, Iterator[PlannedBatch]]:
        """Yields an epoch's batches from the first on; returns the next one's plan.

        That is begun, in a thread, once there is a batch to train on.
        """

        def next_plan() -> Iterator[PlannedBatch]:
            return self._strategy.plan(self._seed, epoch + 1)

        following = next_plan
        ahead = None
        count = 0
        for planned in plan:
            if ahead is not None:
                yield ahead
                if following is next_plan:
                    following = begun(next_plan)
            ahead = planned if count >= first else None
            count += 1
        # Before the last one goes out: who asks after it where training stands must
        # hear of the next epoch.
        self._batch_counts[epoch] = count
        if ahead is not None:
            yield ahead
        return following()


def batching_summary(
    corpus: TokenizedCorpus,
    strategy: BatchingStrategy,
    computed_rows: Callable[[BatchShape], int] = lambda shape: shape.rows,
) -> BatchingSummary:
    """Returns what training batches of the same arguments will be like.

    Taken from epoch 0 of seed 0. In buckets the number of batches is the same for
    every seed and epoch; where pairs are packed it may differ by one or two in a
    thousand, and of a mixture somewhat more.

    Args:
        corpus: What to train on.
        strategy: How it falls into batches.
        computed_rows: Returns how many rows are computed of a batch of a shape, with
            those added so that devices have equal shares.
    """
    pairs, batches, positions, used = 0, 0, 0, set()
    tokens = np.zeros(2, np.int64)
    for planned in strategy.plan(0, 0):
        batches += 1
        positions += computed_rows(planned.shape) * planned.shape.positions
        used.add(planned.shape)
        pairs += len(planned.indices)
        tokens += corpus.lengths[planned.indices].sum(axis=0)
    source_tokens, target_tokens = map(int, tokens)
    return BatchingSummary(
        pairs=pairs,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        batches_per_epoch=batches,
        num_shapes=len(used),
        padding_share=1.0 - (source_tokens + target_tokens) / positions,
        mean_source_tokens=source_tokens / batches,
        mean_target_tokens=target_tokens / batches,
        packed=strategy.packed,
    )
