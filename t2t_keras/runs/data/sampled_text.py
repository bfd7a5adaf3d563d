"""Text of samples of a corpus: its characters, its most frequent pairs, and examples.

The text is read once, forwards, and the few most frequent pairs once more. Memory holds
a hash and a number for each sampled line, and never the text of all.
"""

import collections
import dataclasses
import functools
import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

from t2t_keras.input_pipeline.corpora.filters import IsDuplicate, script_of
from t2t_keras.input_pipeline.corpora.line_reader import LineReader
from t2t_keras.runs.data.line_samples import LineSample, RandomLines, read_pairs

MOST_FREQUENT = 10
"""Most frequent pairs in a report."""
DIGITS, PUNCTUATION, SYMBOLS = "digits", "punctuation", "symbols"
SPACES, OTHERS = "spaces", "other characters"
_KINDS = {"N": DIGITS, "P": PUNCTUATION, "S": SYMBOLS, "Z": SPACES}


@dataclasses.dataclass(frozen=True)
class Example:
    """A pair of the text, normalized, and the number of its line from 1."""

    line: int
    source: str
    target: str


@dataclasses.dataclass(frozen=True)
class Scripts:
    """Characters of each side by script, or by kind where they are no letters.

    Attributes:
        pairs: Number of kept pairs in which they are counted.
        source: Number of characters of each script.
        target: The same of the targets.
    """

    pairs: int
    source: Mapping[str, int]
    target: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """The most frequent pairs.

    Attributes:
        are_decided: Whether the filter `duplicates` has found all of them. Otherwise
            they are counted among the kept pairs.
        lines: Number of duplicates that it found, or of kept pairs.
        counted: Number of these that are counted: all, or a sample.
        repeats: Number of them that are equal to an earlier pair.
        pairs: How often each occurs, the most frequent first, at least twice. Where
            not all are counted, it may occur more often.
    """

    are_decided: bool
    lines: int
    counted: int
    repeats: int
    pairs: tuple[tuple[int, Example], ...]


class SampledText:
    """Reads the text of samples, shard by shard.

    Args:
        reader: Reads the text.
        counted: The pairs whose characters are counted.
        hashed: The pairs among which the most frequent are found.
        chosen: The lines for examples.
    """

    def __init__(
        self,
        reader: LineReader,
        counted: LineSample,
        hashed: LineSample,
        chosen: RandomLines,
    ):
        self._reader = reader
        self._counted = counted
        self._hashed = hashed
        self._chosen = chosen.all()
        self._hashes = np.zeros(hashed.size, np.uint64)
        self._lines = np.zeros(hashed.size, np.int64)
        self._filled = 0
        self._characters: list[collections.Counter[str]] = [
            collections.Counter() for _ in range(2)
        ]
        self.examples: dict[int, Example] = {}
        """The examples that have been read, by the number of the line from 0."""

    def add(self, decisions: np.ndarray, first: int) -> None:
        """Reads what is needed of the next lines, given what became of them."""
        bounds = np.searchsorted(self._chosen, [first, first + len(decisions)])
        kinds = (
            self._chosen[bounds[0] : bounds[1]],
            self._counted.take(decisions, first),
            self._hashed.take(decisions, first),
        )
        needed = np.unique(np.concatenate(kinds))
        masks = [np.isin(needed, lines) for lines in kinds]
        done = 0
        for lines, *sides in read_pairs(self._reader, needed):
            own = slice(done, done + len(lines))
            done = own.stop
            chosen, counted, hashed = (
                np.flatnonzero(mask[own]).tolist() for mask in masks
            )
            for place in chosen:
                source, target = (side[place] for side in sides)
                line = int(lines[place])
                self.examples[line] = Example(line + 1, source, target)
            for characters, side in zip(self._characters, sides, strict=True):
                characters.update("".join(side[place] for place in counted))
            self._hash(lines[hashed], *([side[i] for i in hashed] for side in sides))

    def _hash(
        self, lines: np.ndarray, sources: Sequence[str], targets: Sequence[str]
    ) -> None:
        own = slice(self._filled, self._filled + len(lines))
        self._filled = own.stop
        self._lines[own] = lines
        self._hashes[own] = IsDuplicate.hash_pairs(sources, targets)

    def scripts(self) -> Scripts:
        """Returns the characters by script, after all has been read."""
        return Scripts(self._counted.size, *map(_by_script, self._characters))

    def most_frequent(self, are_decided: bool) -> Duplicates:
        """Returns the most frequent pairs, after all has been read.

        Args:
            are_decided: Whether all are duplicates, of a pair before them.
        """
        _, first, counts = np.unique(
            self._hashes, return_index=True, return_counts=True
        )
        times = counts + are_decided
        # Of equally frequent ones, the first in the text.
        order = np.lexsort([first, -times])[:MOST_FREQUENT]
        order = order[times[order] > 1]
        found = dict(
            zip(self._lines[first[order]].tolist(), times[order].tolist(), strict=True)
        )
        pairs = {
            line + 1: Example(line + 1, source, target)
            for own, sources, targets in read_pairs(self._reader, np.sort([*found]))
            for line, source, target in zip(own.tolist(), sources, targets, strict=True)
        }
        size = len(self._hashes)
        return Duplicates(
            are_decided,
            self._hashed.lines,
            size,
            size if are_decided else size - len(counts),
            tuple((number, pairs[line + 1]) for line, number in found.items()),
        )


def _by_script(characters: Mapping[str, int]) -> dict[str, int]:
    """Returns the number of characters of each script or kind."""
    counts: collections.Counter[str] = collections.Counter()
    for character, count in characters.items():
        counts[kind_of(character)] += count
    return dict(counts)


@functools.lru_cache(1 << 16)
def kind_of(character: str) -> str:
    """Returns the script of a letter or of a mark on it, or the kind of a character.

    >>> [kind_of(character) for character in "a\u0411\u0940 7\u066c$"]
    ['LATIN', 'CYRILLIC', 'DEVANAGARI', 'spaces', 'digits', 'punctuation', 'symbols']
    """
    category = unicodedata.category(character)[0]
    if category in "LM":
        return script_of(character) or OTHERS
    return _KINDS.get(category, OTHERS)
