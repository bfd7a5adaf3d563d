"""Shuffle windows: an epoch of a large corpus, planned window by window.

The corpus is cut into chunks of consecutive pairs. In each epoch the chunks are in
another random order, and those next to each other make a window, whose pairs are
shuffled and batched as those of a whole corpus are. A window is a pure function of
seed, epoch and its number, so training resumes in it without the windows before, and
only the lengths of its own pairs are in memory (ADR 0034).
"""

import dataclasses
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.mixture import EpochBatching
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.plan import (
    ORDER_OF_CHUNKS,
    PlannedBatch,
    permutation,
    random_stream,
)

# Chunks of a window: so many places of the corpus are in each batch.
_CHUNKS_PER_WINDOW = 16
# Longer chunks would not be read faster.
_MOST_PER_CHUNK = 500_000


class PairLengths(Protocol):
    """Lengths of the pairs of a corpus, by number, in memory or on disk."""

    def __len__(self) -> int: ...

    def read(self, begin: int, end: int) -> np.ndarray:
        """Returns source and target lengths [end - begin, 2] of a range of pairs."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class WindowBatching(EpochBatching):
    """Batches of a corpus: another strategy on the pairs of each window.

    Attributes:
        lengths: Lengths of all pairs.
        pairs_per_window: Maximum number of pairs that are shuffled together.
        strategy: Batches the pairs of a window; its own lengths do not matter.
    """

    lengths: PairLengths
    pairs_per_window: int
    strategy: BucketBatching | PackedBatching

    @property
    def num_windows(self) -> int:
        """Number of windows of an epoch, at least 1."""
        chunks = -(-len(self.lengths) // self._pairs_per_chunk)
        per_window = max(1, self.pairs_per_window // self._pairs_per_chunk)
        return max(1, -(-chunks // per_window))

    def pairs(self, seed: int, epoch: int, window: int) -> list[range]:
        """Returns the chunks of a window, each a range of numbers of pairs."""
        size = self._pairs_per_chunk
        chunks = -(-len(self.lengths) // size)
        random = random_stream(seed, epoch, ORDER_OF_CHUNKS)
        own = np.array_split(permutation(chunks, random), self.num_windows)[window]
        ends = np.minimum((own + 1) * size, len(self.lengths))
        return [*map(range, (own * size).tolist(), ends.tolist())]

    def plan(self, seed: int, epoch: int, window: int = 0) -> Iterator[PlannedBatch]:
        """Yields the batches of a window: a pure function of the arguments."""
        chunks = self.pairs(seed, epoch, window)
        pairs = np.concatenate([np.arange(c.start, c.stop) for c in chunks])
        lengths = np.concatenate([self.lengths.read(c.start, c.stop) for c in chunks])
        strategy = dataclasses.replace(self.strategy, lengths=lengths)
        # The inner window is from 1 on: 0 would be that of a whole epoch.
        for planned in strategy.plan(seed, epoch, window + 1):
            yield planned._replace(indices=pairs[planned.indices])

    @property
    def _pairs_per_chunk(self) -> int:
        return min(_MOST_PER_CHUNK, max(1, self.pairs_per_window // _CHUNKS_PER_WINDOW))
