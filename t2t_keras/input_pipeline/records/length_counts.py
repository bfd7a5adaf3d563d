"""Counts of the pairs of a corpus by the lengths of their sides.

Shapes: N pairs, C combinations of lengths that occur.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# Combinations of lengths up to which an array counts them all.
_MOST_COUNTED = 1 << 24


class LengthCounts(NamedTuple):
    """Number of pairs of each combination of lengths that occurs.

    It is all that the choice of shapes needs to know of a corpus.
    """

    source: np.ndarray
    """[C] int64."""
    target: np.ndarray
    """[C] int64."""
    pairs: np.ndarray
    """[C] int64, above 0."""

    @classmethod
    def from_lengths(cls, lengths: np.ndarray) -> "LengthCounts":
        """Returns the counts of some pairs, in order of source and target length.

        Args:
            lengths: [N, 2] int, source and target length with end of sentence.
        """
        if not len(lengths):
            none = np.zeros(0, np.int64)
            return cls(none, none, none)
        width = int(lengths[:, 1].max()) + 1
        numbers = lengths[:, 0].astype(np.int64) * width + lengths[:, 1]
        if int(numbers.max()) < _MOST_COUNTED:
            pairs = np.bincount(numbers)
            used = np.flatnonzero(pairs)
            return cls(*np.divmod(used, width), pairs[used])
        used, pairs = np.unique(numbers, return_counts=True)
        return cls(*np.divmod(used, width), pairs)

    @classmethod
    def join(cls, parts: Iterable["LengthCounts"]) -> "LengthCounts":
        """Returns the counts of the pairs of several corpora, in the same order."""
        rows = np.concatenate(
            [np.zeros([3, 0], np.int64), *map(np.array, parts)], axis=1
        )
        order = np.lexsort((rows[1], rows[0]))
        source, target, pairs = rows[:, order]
        is_new = np.ones(len(pairs), bool)
        is_new[1:] = (np.diff(source) != 0) | (np.diff(target) != 0)
        firsts = np.flatnonzero(is_new)
        sums = np.add.reduceat(pairs, firsts) if len(firsts) else pairs
        return cls(source[firsts], target[firsts], sums)

    @classmethod
    def from_array(cls, counts_C3: np.ndarray) -> "LengthCounts":
        """Returns the counts of which `to_array` returned the array."""
        return cls(*np.ascontiguousarray(counts_C3.T))

    def to_array(self) -> np.ndarray:
        """Returns [C, 3] int64: source length, target length, pairs."""
        return np.stack(self, axis=1).astype(np.int64)
