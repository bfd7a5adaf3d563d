"""Two ways to fill batches with the pairs of a corpus: in buckets, or packed.

Buckets are the paper's: a row for each pair, with pairs of like length. Packed rows
hold several pairs (ADR 0016).
"""

import dataclasses
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from t2t_keras.input_pipeline.batch_plan import PlannedBatch, plan_epoch
from t2t_keras.input_pipeline.batching import make_batch, make_packed_batch
from t2t_keras.input_pipeline.bucketing import BatchShape, bucket_shapes
from t2t_keras.input_pipeline.packing import packed_shape, plan_packed_epoch
from t2t_keras.input_pipeline.tokenized import TokenizedCorpus
from t2t_keras.typing import Batch


class Filling(Protocol):
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

    def make(self, corpus: TokenizedCorpus, planned: PlannedBatch) -> Batch:
        """Returns the features of a batch."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class BucketFilling:
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
    ) -> "BucketFilling":
        """Returns the filling of the shapes that suit the lengths; `bucket_shapes`."""
        shapes = bucket_shapes(
            lengths, max_shapes=max_shapes, tokens_per_batch=tokens_per_batch
        )
        return cls(lengths, shapes)

    def plan(self, seed: int, epoch: int) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch; see `plan_epoch`."""
        yield from plan_epoch(self.lengths, self.shapes, seed, epoch)

    def make(self, corpus: TokenizedCorpus, planned: PlannedBatch) -> Batch:
        """Returns the features of a batch; see `make_batch`."""
        return make_batch(corpus, planned)


@dataclasses.dataclass(frozen=True, eq=False)
class PackedFilling:
    """Several pairs in a row, in batches of one shape.

    Attributes:
        lengths: [N, 2] int, source and target length of every pair.
        shape: Holds every pair.
    """

    lengths: np.ndarray
    shape: BatchShape

    packed = True

    @classmethod
    def of(cls, lengths: np.ndarray, *, tokens_per_batch: int) -> "PackedFilling":
        """Returns the filling of the shape that suits the lengths; `packed_shape`."""
        return cls(lengths, packed_shape(lengths, tokens_per_batch))

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """The one shape."""
        return (self.shape,)

    def plan(self, seed: int, epoch: int) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch; see `plan_packed_epoch`."""
        yield from plan_packed_epoch(self.lengths, self.shape, seed, epoch)

    def make(self, corpus: TokenizedCorpus, planned: PlannedBatch) -> Batch:
        """Returns the features of a batch; see `make_packed_batch`."""
        return make_packed_batch(corpus, planned)
