"""Encoding of lines of text: a decision about each line, and the ids of those kept.

Nothing here depends on other lines, so that lines can be encoded in any process. No
TensorFlow is imported.

Shapes: L lines, n pairs with text on both sides.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from t2t_keras.input_pipeline.corpora.filters import (
    ChunkFilter,
    IsDuplicate,
    first_rejections,
)
from t2t_keras.input_pipeline.corpora.fingerprints import hash_pairs
from t2t_keras.input_pipeline.corpora.line_reader import RawLines
from t2t_keras.input_pipeline.records.tokenized import (
    TokenizationReport,
    TokenizedChunk,
    filter_pairs,
)
from t2t_keras.text.normalization import is_blank, normalize
from t2t_keras.text.stored_vocabulary import vocabulary_from_bytes

KEPT, BLANK, EMPTY, OVER_LONG, FILTERED = range(5)
"""Decisions about a line: kept; no text on a side; no tokens on a side; too long; or,
from FILTERED on, the number of the filter that rejects it."""

DUPLICATES = "duplicates"
"""Item of --filter that no single process can decide."""


@dataclasses.dataclass(frozen=True)
class LineEncoding:
    """How lines are encoded; it can be sent to another process, and makes an encoder.

    Attributes:
        vocabulary: The vocabulary, from `Vocabulary.to_bytes`.
        max_length: Longest side that is kept, end of sentence included.
        filters: Item of --filter, and the function that makes each filter.
        keep_text: Whether the text of pairs is kept.
        drops_blank: Whether lines without text on a side are left out before the
            filters, as those of files are, and not after them, as those of datasets.
    """

    vocabulary: bytes
    max_length: int
    filters: tuple[tuple[str, Callable[[], ChunkFilter]], ...] = ()
    keep_text: bool = False
    drops_blank: bool = True

    @property
    def names(self) -> list[str]:
        """Items of --filter."""
        return [name for name, _ in self.filters]

    def __call__(self) -> "LineEncoder":
        """Returns an encoder."""
        return LineEncoder(self)


@dataclasses.dataclass(frozen=True)
class EncodedLines:
    """Lines as token ids, without those that are not kept.

    Attributes:
        chunk: The pairs that are kept.
        decisions: [L] uint8, about each line.
        hashes: [n] uint64, of the text of each pair with text on both sides.
        candidates: Hashes of the pairs that would be duplicates of an equal one before
            them, uint64; empty without that filter.
        text: Source and target of the pairs that are kept, a line each; empty if they
            are not to be kept.
    """

    chunk: TokenizedChunk
    decisions: np.ndarray
    hashes: np.ndarray
    candidates: np.ndarray
    text: tuple[bytes, ...]


class LineEncoder:
    """Encodes lines."""

    def __init__(self, encoding: LineEncoding):
        self._encoding = encoding
        self._vocabulary = vocabulary_from_bytes(encoding.vocabulary)
        self._filters = [
            None if name == DUPLICATES else make() for name, make in encoding.filters
        ]

    def __call__(self, lines: RawLines) -> EncodedLines:
        """Returns the ids of the pairs that can be trained on."""
        source, target = lines.split()
        decisions = np.zeros(len(source), np.uint8)
        if self._encoding.drops_blank:
            decisions[[*map(is_blank, source)]] = BLANK
            decisions[[*map(is_blank, target)]] = BLANK
        source, target = _keep(source, target, decisions == KEPT)
        hashes = hash_pairs(source, target)
        candidates = hashes[:0]
        if self._filters:
            rejected_by, candidates = self._filter(source, target)
            decisions[decisions == KEPT] = np.where(
                rejected_by < 0, KEPT, FILTERED + rejected_by
            )
            source, target = _keep(source, target, rejected_by < 0)
        vocabulary = self._vocabulary
        ids = vocabulary.source.encode_all(source), vocabulary.encode_all(target)
        chunk = filter_pairs(*ids, self._encoding.max_length, vocabulary.largest_size)
        is_kept = np.asarray(chunk.is_kept)
        is_empty = (ids[0][1] == 1) | (ids[1][1] == 1)
        decisions[decisions == KEPT] = np.where(
            is_kept, KEPT, np.where(is_empty, EMPTY, OVER_LONG)
        )
        text: tuple[bytes, ...] = ()
        if self._encoding.keep_text:
            kept = chunk.keep_lines(source, target)
            text = tuple(b"".join(line + b"\n" for line in side) for side in kept)
        return EncodedLines(chunk, decisions, hashes, candidates, text)

    def _filter(
        self, sources: Sequence[bytes], targets: Sequence[bytes]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns which filter rejects each pair, and the hashes of the candidates."""
        texts = [*map(normalize, sources)], [*map(normalize, targets)]
        rejected_by = first_rejections(self._filters, *texts)
        if DUPLICATES not in self._encoding.names:
            return rejected_by, np.zeros(0, np.uint64)
        is_candidate = candidates_of(
            np.where(rejected_by < 0, KEPT, FILTERED + rejected_by),
            self._encoding.names,
        )
        return rejected_by, IsDuplicate.hash_pairs(*_keep(*texts, is_candidate))


def candidates_of(decisions: np.ndarray, filters: Sequence[str]) -> np.ndarray:
    """Returns which lines no filter before `duplicates` rejects, [L] bool.

    Args:
        decisions: [L], without those about duplicates or with them.
        filters: Items of --filter, one of which is `duplicates`.
    """
    own = FILTERED + filters.index(DUPLICATES)
    return (decisions != BLANK) & ((decisions < FILTERED) | (decisions >= own))


def report_of(
    decisions: np.ndarray, source_tokens: int, target_tokens: int
) -> TokenizationReport:
    """Returns the numbers of lines kept and dropped.

    Args:
        decisions: [L] uint8.
        source_tokens: Tokens of the lines kept.
        target_tokens: The same of the targets.
    """
    counts = np.bincount(decisions, minlength=FILTERED + 1).tolist()
    return TokenizationReport(
        pairs_kept=counts[KEPT],
        dropped_over_long=counts[OVER_LONG],
        dropped_empty=counts[BLANK] + counts[EMPTY],
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        dropped_by_filters=sum(counts[FILTERED:]),
    )


def _keep(
    sources: Sequence, targets: Sequence, is_kept: np.ndarray
) -> tuple[list, list]:
    kept = is_kept.tolist()
    return [*itertools.compress(sources, kept)], [*itertools.compress(targets, kept)]
