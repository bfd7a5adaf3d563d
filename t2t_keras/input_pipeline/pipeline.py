"""The composition: a tokenized corpus comes in, datasets of batches go out."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from t2t_keras.input_pipeline.batch_plan import (
    PlannedBatch,
    plan_epoch,
    plan_evaluation,
)
from t2t_keras.input_pipeline.batching import make_batch
from t2t_keras.input_pipeline.bucketing import bucket_rows
from t2t_keras.input_pipeline.features import check_batch, element_spec
from t2t_keras.input_pipeline.tokenized import TokenizedCorpus
from t2t_keras.typing import Batch


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

    def advance(self, batches: int, batches_per_epoch: int) -> "DataPosition":
        """Returns the position after some more batches.

        Args:
            batches: How many have been trained on since this position.
            batches_per_epoch: The same for every epoch; see `batching_summary`.
        """
        epochs, position = divmod(self.position + batches, batches_per_epoch)
        return DataPosition(self.epoch + epochs, position)


@dataclasses.dataclass(frozen=True)
class BatchingSummary:
    """How a corpus falls into batches, for the report at the start."""

    pairs: int
    source_tokens: int
    target_tokens: int
    batches_per_epoch: int
    num_shapes: int
    padding_share: float
    """Share of the positions of both sides that hold no token, in [0, 1)."""
    mean_source_tokens: float
    """Real source tokens a batch; the paper reports about 25,000."""
    mean_target_tokens: float

    def describe(self) -> str:
        """Returns the summary in words, on three lines."""
        return (
            f"{self.pairs:,} pairs: {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens\n"
            f"{self.batches_per_epoch:,} batches an epoch, on average "
            f"{self.mean_source_tokens:,.0f} source and "
            f"{self.mean_target_tokens:,.0f} target tokens each\n"
            f"{self.num_shapes} shapes; {self.padding_share:.1%} of all positions "
            "are padding"
        )


def train_batches(
    corpus: TokenizedCorpus,
    *,
    bounds: Sequence[int],
    tokens_per_batch: int,
    seed: int,
    start: DataPosition = DataPosition(),
) -> tf.data.Dataset:
    """Returns an endless dataset of training batches.

    What comes from a position on does not depend on where one started: the
    order is a function of seed, epoch and position alone.

    Args:
        corpus: What to train on.
        bounds: Padded lengths, ascending; see `bucket_bounds`.
        tokens_per_batch: Most padded positions a side; see `bucket_rows`.
        seed: Of the order, in [0, 2**64).
        start: The first batch to return.

    Raises:
        ValueError: If `start` lies behind the end of an epoch.
        UserError: If `tokens_per_batch` is too small for the largest bound.
    """
    rows = _rows_by_bound(bounds, tokens_per_batch)

    def plan_of(epoch: int) -> list[PlannedBatch]:
        return plan_epoch(corpus.lengths, bounds, tokens_per_batch, seed, epoch)

    first_plan = plan_of(start.epoch)
    if start.position >= len(first_plan):
        raise ValueError(
            f"start.position must be below the {len(first_plan)} batches of an "
            f"epoch. Received: {start.position}"
        )

    def batches() -> Iterator[Batch]:
        yield from _made(corpus, first_plan[start.position :], rows)
        epoch = start.epoch + 1
        while True:
            yield from _made(corpus, plan_of(epoch), rows)
            epoch += 1

    return _dataset(batches)


def eval_batches(
    corpus: TokenizedCorpus,
    *,
    bounds: Sequence[int],
    tokens_per_batch: int,
) -> tf.data.Dataset:
    """Returns a dataset of every pair once, from the shortest to the longest.

    Args:
        corpus: What to evaluate on.
        bounds: Padded lengths, ascending; see `bucket_bounds`.
        tokens_per_batch: Most padded positions a side; see `bucket_rows`.

    Raises:
        UserError: If `tokens_per_batch` is too small for the largest bound.
    """
    rows = _rows_by_bound(bounds, tokens_per_batch)
    plan = plan_evaluation(corpus.lengths, bounds, tokens_per_batch)
    dataset = _dataset(lambda: _made(corpus, plan, rows))
    return dataset.apply(tf.data.experimental.assert_cardinality(len(plan)))


def batching_summary(
    corpus: TokenizedCorpus,
    *,
    bounds: Sequence[int],
    tokens_per_batch: int,
) -> BatchingSummary:
    """Returns what `train_batches` of the same arguments will be like.

    Taken from epoch 0 of seed 0. The number of batches is the same for every
    seed and epoch; only where the last few pairs of an epoch end up may change
    the share of padding a little.
    """
    plan = plan_epoch(corpus.lengths, bounds, tokens_per_batch, 0, 0)
    rows = _rows_by_bound(bounds, tokens_per_batch)
    used_bounds = np.array([batch.bound for batch in plan])
    positions = 2 * sum(int(rows[bound]) * int(bound) for bound in used_bounds)
    source_tokens, target_tokens = map(int, corpus.lengths.sum(axis=0))
    return BatchingSummary(
        pairs=len(corpus),
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        batches_per_epoch=len(plan),
        num_shapes=len(np.unique(used_bounds)),
        padding_share=1.0 - (source_tokens + target_tokens) / positions,
        mean_source_tokens=source_tokens / len(plan),
        mean_target_tokens=target_tokens / len(plan),
    )


def _rows_by_bound(bounds: Sequence[int], tokens_per_batch: int) -> dict[int, int]:
    rows = bucket_rows(bounds, tokens_per_batch)
    return dict(zip(bounds, rows, strict=True))


def _made(
    corpus: TokenizedCorpus, plan: Sequence[PlannedBatch], rows: dict[int, int]
) -> Iterator[Batch]:
    for planned in plan:
        batch = make_batch(corpus, planned, rows[planned.bound])
        check_batch(batch)
        yield batch


def _dataset(batches: Callable[[], Iterator[Batch]]) -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_generator(
        batches, output_signature=element_spec(rows=None, bound=None)
    )
    return dataset.prefetch(tf.data.AUTOTUNE)
