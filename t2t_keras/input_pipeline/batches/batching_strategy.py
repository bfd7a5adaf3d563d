"""Batching strategy: how a corpus falls into batches, by default in length buckets.

Length bucketing is the paper's: a row for each pair, beside pairs of similar length.
`packing.py` has a strategy with several pairs in a row (ADR 0016), `mixture.py` one for
a mixture of corpora (ADR 0022).
"""

import dataclasses
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from t2t_keras.input_pipeline.batches.batching import GatheredBatch, make_batch
from t2t_keras.input_pipeline.batches.bucketing import bucket_shapes
from t2t_keras.input_pipeline.batches.plan import PlannedBatch, plan_epoch
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
