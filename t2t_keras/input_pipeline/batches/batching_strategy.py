"""Batching strategies: length buckets or packed rows, also of a mixture.

Buckets are the paper's: a row for each pair, with pairs of like length. Packed rows
hold several pairs (ADR 0016). Either may be of a mixture (ADR 0022).
"""

import dataclasses
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from t2t_keras.input_pipeline.batches.batching import (
    GatheredBatch,
    make_batch,
    make_packed_batch,
)
from t2t_keras.input_pipeline.batches.bucketing import bucket_shapes
from t2t_keras.input_pipeline.batches.mixture import Mixture
from t2t_keras.input_pipeline.batches.packing import packed_shape, plan_packed_epoch
from t2t_keras.input_pipeline.batches.plan import PlannedBatch, plan_epoch
from t2t_keras.typing import Batch, BatchShape


class BatchingStrategy(Protocol):
    """How a corpus falls into batches."""

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """All shapes that batches may have, from small to large."""
        ...

    @property
    def packed(self) -> bool:
        """Whether several pairs share a row."""
        ...

    def plan(self, seed: int, epoch: int) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch: a pure function of seed and epoch."""
        ...

    def make(self, gathered: GatheredBatch) -> Batch:
        """Returns the features of a batch, eagerly or in a traced function."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class BucketBatching:
    """A row for each pair, in batches of a few shapes.

    Attributes:
        lengths: [N, 2] int, source and target length of every pair.
        shapes: From small to large, the last of which holds every pair.
    """

    lengths: np.ndarray
    shapes: tuple[BatchShape, ...]

    packed = False

    @classmethod
    def of(
        cls, lengths: np.ndarray, *, max_shapes: int, tokens_per_batch: int
    ) -> "BucketBatching":
        """Returns the strategy of the shapes that suit the lengths; `bucket_shapes`."""
        shapes = bucket_shapes(
            lengths, max_shapes=max_shapes, tokens_per_batch=tokens_per_batch
        )
        return cls(lengths, shapes)

    def plan(self, seed: int, epoch: int) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch; see `plan_epoch`."""
        yield from plan_epoch(self.lengths, self.shapes, seed, epoch)

    def make(self, gathered: GatheredBatch) -> Batch:
        """Returns the features of a batch; see `make_batch`."""
        return make_batch(gathered)


@dataclasses.dataclass(frozen=True, eq=False)
class PackedBatching:
    """Several pairs in a row, in batches of one shape.

    Attributes:
        lengths: [N, 2] int, source and target length of every pair.
        shape: Holds every pair.
    """

    lengths: np.ndarray
    shape: BatchShape

    packed = True

    @classmethod
    def of(cls, lengths: np.ndarray, *, tokens_per_batch: int) -> "PackedBatching":
        """Returns the strategy of the shape that suits the lengths; `packed_shape`."""
        return cls(lengths, packed_shape(lengths, tokens_per_batch))

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """The one shape."""
        return (self.shape,)

    def plan(self, seed: int, epoch: int) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch; see `plan_packed_epoch`."""
        yield from plan_packed_epoch(self.lengths, self.shape, seed, epoch)

    def make(self, gathered: GatheredBatch) -> Batch:
        """Returns the features of a batch; see `make_packed_batch`."""
        return make_packed_batch(gathered)


@dataclasses.dataclass(frozen=True, eq=False)
class MixtureBatching:
    """Batches of a mixture: each epoch has pairs of its own.

    Attributes:
        lengths: [N, 2] int, source and target length of every pair of all parts.
        mixture: Which of them an epoch has.
        strategy: Of the pairs of an epoch; its own lengths do not matter.
    """

    lengths: np.ndarray
    mixture: Mixture
    strategy: BucketBatching | PackedBatching

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """All shapes that batches may have, from small to large."""
        return self.strategy.shapes

    @property
    def packed(self) -> bool:
        """Whether several pairs share a row."""
        return self.strategy.packed

    def plan(self, seed: int, epoch: int) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch."""
        pairs = self.mixture.pairs(seed, epoch)
        strategy = dataclasses.replace(self.strategy, lengths=self.lengths[pairs])
        for planned in strategy.plan(seed, epoch):
            yield planned._replace(indices=pairs[planned.indices])

    def make(self, gathered: GatheredBatch) -> Batch:
        """Returns the features of a batch."""
        return self.strategy.make(gathered)


def lengths_of_mixture(lengths: np.ndarray, mixture: Mixture) -> np.ndarray:
    """Returns lengths [n, 2] that stand for those of every epoch of a mixture.

    They are those of one epoch, and at their end the longest source beside the longest
    target of all pairs: a shape that holds them holds whatever another epoch has.

    Args:
        lengths: [N, 2] int, source and target length of every pair of all parts.
        mixture: Which of them an epoch has.
    """
    one_epoch = lengths[mixture.pairs(0, 0)]
    return np.concatenate([one_epoch, lengths.max(axis=0, keepdims=True)])
