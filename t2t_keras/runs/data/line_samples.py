"""Samples of the lines of records, by what became of them, and reading of their text.

A sample depends on the records alone: not on parts, processes or the size of shards.
Memory holds the decisions of one shard.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from t2t_keras.input_pipeline.corpora.line_reader import LineReader
from t2t_keras.runs.data.training_lines import sampled_ranges
from t2t_keras.text.normalization import normalize

_SEED = 2
_WORDS_PER_STEP = 4  # of Philox
# Lines apart that are read together: finding a place takes as long as reading some.
_LARGEST_GAP = 256


class RandomLines:
    """Some lines of each kind at random, each line equally probable.

    A line has a random number that depends on nothing but the line's, and those with
    the smallest are taken.

    Args:
        count: Lines of each kind.
    """

    def __init__(self, count: int):
        self._count = count
        self._taken: dict[int, np.ndarray] = {}

    def add(self, decisions: np.ndarray, first: int) -> None:
        """Looks at consecutive lines: what became of them, and the first's number."""
        keys = _random_words(first, len(decisions))
        for decision in np.flatnonzero(np.bincount(decisions)).tolist():
            places = np.flatnonzero(decisions == decision)
            if len(places) > self._count:
                smallest = np.argpartition(keys[places], self._count)[: self._count]
                places = places[smallest]
            own = np.stack([keys[places], (first + places).astype(np.uint64)])
            both = np.hstack([self._taken.get(decision, own[:, :0]), own])
            order = np.lexsort(both[::-1])[: self._count]
            self._taken[decision] = both[:, order]

    def of(self, decision: int) -> np.ndarray:
        """Returns the numbers of the lines taken, [at most count] int64 in order."""
        taken = self._taken.get(decision, np.zeros([2, 0], np.uint64))
        return np.sort(taken[1].astype(np.int64))

    def all(self) -> np.ndarray:
        """Returns those of every kind, [lines] int64 in order."""
        each = [self.of(decision) for decision in self._taken]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *each]))


def _random_words(first: int, count: int) -> np.ndarray:
    """Returns the random numbers of consecutive lines, [count] uint64."""
    skipped = first % _WORDS_PER_STEP
    generator = np.random.Philox(_SEED).advance(first // _WORDS_PER_STEP)
    return generator.random_raw(skipped + count)[skipped:]


@dataclasses.dataclass
class LineSample:
    """Lines of one kind, all of them or a limited number all over the text.

    Attributes:
        decision: What became of them.
        lines: Number of such lines.
        most: Number of lines to take at most.
    """

    decision: int
    lines: int
    most: int

    def __post_init__(self):
        self._ranges = sampled_ranges(self.lines, self.most)
        self._seen = 0

    @property
    def size(self) -> int:
        """Number of lines in the sample."""
        return sum(map(len, self._ranges))

    def take(self, decisions: np.ndarray, first: int) -> np.ndarray:
        """Returns which of the next lines are in the sample, [lines] int64 in order.

        Args:
            decisions: About the next lines of the text.
            first: Number of the first of them.
        """
        places = np.flatnonzero(decisions == self.decision)
        begin, end = self._seen, self._seen + len(places)
        self._seen = end
        parts = [
            places[max(each.start - begin, 0) : each.stop - begin]
            for each in self._ranges
            if each.start < end and each.stop > begin
        ]
        return first + np.concatenate([places[:0], *parts])


def read_pairs(
    reader: LineReader, lines: np.ndarray
) -> Iterator[tuple[np.ndarray, Sequence[str], Sequence[str]]]:
    """Yields some lines of a text, as filters see them: numbers, sources and targets.

    Args:
        reader: Reads the text.
        lines: [n] int64, in order.
    """
    if not len(lines):
        return
    ends = np.flatnonzero(np.diff(lines) > _LARGEST_GAP) + 1
    for part in np.split(lines, ends):
        for raw in reader.read(int(part[0]), int(part[-1]) + 1):
            bounds = np.searchsorted(part, [raw.first, raw.first + raw.count])
            own = part[bounds[0] : bounds[1]]
            if not len(own):
                continue
            source, target = raw.split()
            places = (own - raw.first).tolist()
            yield (
                own,
                [normalize(source[place]) for place in places],
                [normalize(target[place]) for place in places],
            )
