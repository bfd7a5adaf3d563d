"""Pairs of records, mapped from disk: nothing of them is in memory until it is used.

Where a sentence begins in its shard is known for each 16th pair; for the others the
lengths between are added up.

Each open shard takes four file descriptors, and a corpus may have more shards than the
process may have files. So what was not used for longest is closed.

Shapes: N pairs, n of a batch, S shards, G pairs of a group.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from t2t_keras.files import descriptors
from t2t_keras.input_pipeline.records.shards import PAIRS_PER_START, ShardArrays
from t2t_keras.input_pipeline.records.tokenized import token_positions

# A shard has four files, and others need descriptors too.
_DESCRIPTORS_PER_SHARD = 8


class MappedPairs:
    """Pairs of several shards, numbered from shard to shard.

    Args:
        sizes: [S] number of pairs of each shard.
        open_shard: Opens the shard of a number.

    Attributes:
        shard: Returns the arrays of the shard of a number, opened if necessary.
    """

    def __init__(self, sizes: Sequence[int], open_shard: Callable[[int], ShardArrays]):
        self._firsts = np.cumsum([0, *sizes])
        self.shard = functools.lru_cache(_most_open(len(sizes)))(open_shard)

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return len(self._firsts) - 1

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def read(self, begin: int, end: int) -> np.ndarray:
        """Returns source and target lengths [end - begin, 2] int32 of a range."""
        parts = [np.zeros([0, 2], np.int32)]
        first = int(np.searchsorted(self._firsts, begin, side="right")) - 1
        for number in range(first, self.num_shards):
            own = slice(
                max(begin - int(self._firsts[number]), 0),
                max(end - int(self._firsts[number]), 0),
            )
            if own.stop <= own.start:
                break
            parts.append(self.shard(number).lengths[own])
        return np.concatenate(parts, dtype=np.int32)

    def gather(self, indices: np.ndarray) -> np.ndarray:
        """Returns source and target lengths [n, 2] int32 of the given pairs."""
        lengths = np.empty([len(indices), 2], np.int32)
        for number, places, own in self.by_shard(indices):
            lengths[places] = self.shard(number).lengths[own]
        return lengths

    def by_shard(
        self, indices: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yields each shard that has some of the pairs.

        Args:
            indices: [n] int64, each in [0, N), in any order.

        Yields:
            The shard's number, the places of its pairs in `indices`, ascending, and
            their numbers within the shard.
        """
        shard = np.searchsorted(self._firsts, indices, side="right") - 1
        order = np.argsort(shard, kind="stable")
        counts = np.bincount(shard, minlength=self.num_shards)
        used = np.flatnonzero(counts)
        ends = np.cumsum(counts[used])
        begin = 0
        for number, end in zip(used.tolist(), ends.tolist(), strict=True):
            places = order[begin:end]
            yield number, places, indices[places] - self._firsts[number]
            begin = end


def _most_open(num_shards: int) -> int:
    """Returns how many of the shards can be open at a time."""
    most = descriptors.limit()
    if most is not None and most < num_shards * _DESCRIPTORS_PER_SHARD:
        descriptors.allow_many()
        most = descriptors.limit()
    if most is None:
        return num_shards
    return max(1, min(num_shards, most // _DESCRIPTORS_PER_SHARD))


@dataclasses.dataclass(frozen=True)
class MappedSide:
    """Sentences of one language.

    Attributes:
        pairs: The pairs.
        side: 0 for sources, 1 for targets.
    """

    pairs: MappedPairs
    side: int

    @property
    def lengths(self) -> np.ndarray:
        """[N] int32 tokens of each, end of sentence included; read at each use."""
        lengths = np.empty(len(self.pairs), np.int32)
        begin = 0
        for number in range(self.pairs.num_shards):
            own = self.pairs.shard(number).lengths[:, self.side]
            end = begin + len(own)
            lengths[begin:end] = own
            begin = end
        return lengths

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `tokenized.Sentences.gather`. It makes one NumPy call for each shard."""
        lengths = np.empty(len(indices), np.int64)
        parts = []
        for number, places, own in self.pairs.by_shard(indices):
            shard = self.pairs.shard(number)
            starts, lengths[places] = _find(shard, self.side, own)
            stored = token_positions(starts, lengths[places])
            # A copy, so that the shard may be closed: a batch may be from more shards
            # than can be open.
            parts.append((places, shard.tokens[self.side][stored]))
        if len(parts) == 1:
            return parts[0][1], lengths
        before = np.cumsum(lengths) - lengths
        tokens = np.empty(int(lengths.sum()), parts[0][1].dtype if parts else np.uint16)
        for places, part in parts:
            tokens[token_positions(before[places], lengths[places])] = part
        return tokens, lengths


def _find(
    shard: ShardArrays, side: int, indices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first token of each sentence in its shard, and its length, [n]."""
    lengths = shard.lengths
    groups, rest = divmod(len(lengths), PAIRS_PER_START)
    group_n, within_n = np.divmod(indices, PAIRS_PER_START)
    # Whole groups are copied, which is faster than picking the lengths of one side.
    whole = lengths[: len(lengths) - rest].reshape(groups, 2 * PAIRS_PER_START)
    is_whole_n = group_n < groups
    others_nG = np.zeros([len(indices), PAIRS_PER_START], lengths.dtype)  # noqa: N806
    others_nG[is_whole_n] = whole.take(group_n[is_whole_n], axis=0)[:, side::2]
    others_nG[~is_whole_n, :rest] = lengths[len(lengths) - rest :, side]
    is_before_nG = np.arange(PAIRS_PER_START) < within_n[:, None]  # noqa: N806
    before_n = (others_nG * is_before_nG).sum(axis=1, dtype=np.int64)
    starts_n = shard.starts[group_n, side].astype(np.int64) + before_n
    return starts_n, others_nG[np.arange(len(indices)), within_n].astype(np.int64)
