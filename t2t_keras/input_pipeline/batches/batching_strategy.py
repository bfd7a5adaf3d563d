"""Batching strategy: how a corpus falls into batches, by default in length buckets.

Length bucketing is the paper's: a row for each pair, beside pairs of similar length.
`packing.py` has a strategy with several pairs in a row (ADR 0016), `mixture.py` one for
a mixture of corpora (ADR 0022).
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from t2t_keras.input_pipeline.batches.batching import GatheredBatch, make_batch
from t2t_keras.input_pipeline.batches.bucketing import bucket_shapes
from t2t_keras.input_pipeline.batches.plan import PlannedBatch, plan_epoch
from t2t_keras.input_pipeline.records.tokenized import CountedPairs
from t2t_keras.typing import Batch, BatchShape


class BatchingStrategy(Protocol):
    """Plan of a corpus' batches and a function that makes them."""

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """All shapes that batches may have, from small to large."""
        ...

    @property
    def packed(self) -> bool:
        """Whether several pairs share a row."""
        ...

    @property
    def num_windows(self) -> int:
        """Number of shuffle windows that an epoch consists of; 1 for a whole epoch."""
        ...

    def plan(self, seed: int, epoch: int, window: int = 0) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch's window: a pure function of the arguments."""
        ...

    def make(self, gathered: GatheredBatch) -> Batch:
        """Returns the features of a batch, eagerly or in a traced function."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class BucketBatching:
    """Length bucketing: a row for each pair, in batches of a few shapes.

    Attributes:
        lengths: [N, 2] int, source and target length of every pair.
        shapes: From small to large, the last of which holds every pair.
    """

    lengths: np.ndarray
    shapes: tuple[BatchShape, ...]

    packed = False
    num_windows = 1

    @classmethod
    def from_lengths(
        cls,
        lengths: np.ndarray,
        *,
        max_shapes: int,
        tokens_per_batch: int,
        row_multiple: int = 1,
    ) -> "BucketBatching":
        """Returns a strategy with shapes from the lengths; see `bucket_shapes`."""
        shapes = bucket_shapes(
            lengths,
            max_shapes=max_shapes,
            tokens_per_batch=tokens_per_batch,
            row_multiple=row_multiple,
        )
        return cls(lengths, shapes)

    def plan(self, seed: int, epoch: int, window: int = 0) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch; see `plan_epoch`."""
        yield from plan_epoch(self.lengths, self.shapes, seed, epoch, window)

    def make(self, gathered: GatheredBatch) -> Batch:
        """Returns the features of a batch; see `make_batch`."""
        return make_batch(gathered)


@dataclasses.dataclass(frozen=True)
class BatchingSummary:
    """Counts of an epoch's batches, for the report at the start."""

    pairs: int
    source_tokens: int
    target_tokens: int
    batches_per_epoch: int
    num_shapes: int
    padding_share: float
    """Fraction of the computed positions of both sides without a token; in [0, 1)."""
    mean_source_tokens: float
    """Real source tokens per batch; the paper reports about 25,000."""
    mean_target_tokens: float
    packed: bool

    def describe(self) -> str:
        """Returns the summary in words, on three lines."""
        shapes = f"{self.num_shapes} batch shape{'' if self.num_shapes == 1 else 's'}"
        rows = "several pairs per row" if self.packed else "one pair per row"
        return (
            f"{self.pairs:,} pairs: {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens\n"
            f"{self.batches_per_epoch:,} batches per epoch, on average "
            f"{self.mean_source_tokens:,.0f} source and "
            f"{self.mean_target_tokens:,.0f} target tokens each\n"
            f"{shapes}, {rows}; {1 - self.padding_share:.1%} of all positions are "
            "real tokens"
        )


def batching_summary(
    corpus: CountedPairs,
    strategy: BatchingStrategy,
    computed_rows: Callable[[BatchShape], int] = lambda shape: shape.rows,
) -> BatchingSummary:
    """Returns the summary of training batches of the same arguments.

    It counts epoch 0 of seed 0. In buckets the number of batches is the same for
    every seed and epoch; with packing it may differ by one or two in a thousand, and
    with a mixture somewhat more. Of several shuffle windows it counts the first, and
    takes the batches of the others to be like them.

    Args:
        corpus: The training pairs.
        strategy: Plans their batches.
        computed_rows: Returns the number of rows computed for a batch of a shape,
            including the rows added so that all devices have the same number.
    """
    pairs, batches, positions, shapes = 0, 0, 0, set()
    tokens = np.zeros(2, np.int64)
    for planned in strategy.plan(0, 0):
        batches += 1
        positions += computed_rows(planned.shape) * planned.shape.positions
        shapes.add(planned.shape)
        pairs += len(planned.indices)
        tokens += corpus.pair_lengths(planned.indices).sum(axis=0)
    source_tokens, target_tokens = map(int, tokens)
    if strategy.num_windows > 1:
        report = corpus.report
        share = report.pairs_kept / pairs
        pairs = report.pairs_kept
        batches, positions = round(batches * share), round(positions * share)
        source_tokens, target_tokens = report.source_tokens, report.target_tokens
    return BatchingSummary(
        pairs=pairs,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        batches_per_epoch=batches,
        num_shapes=len(shapes),
        padding_share=1.0 - (source_tokens + target_tokens) / positions,
        mean_source_tokens=source_tokens / batches,
        mean_target_tokens=target_tokens / batches,
        packed=strategy.packed,
    )
