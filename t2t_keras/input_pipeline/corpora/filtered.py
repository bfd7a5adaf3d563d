"""Filters applied to the training text of a corpus.

The text is read once to decide, and one byte per pair keeps the decisions.
"""

import dataclasses
import functools
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from t2t_keras.input_pipeline.corpora.corpus import (
    Corpus,
    CorpusSplit,
    TextChunk,
    chunk_pairs,
)
from t2t_keras.input_pipeline.corpora.filters import (
    FilterMakers,
    count_table,
    first_rejections,
    none_left_error,
    rejected_row,
)
from t2t_keras.input_pipeline.corpora.fingerprints import derived_fingerprint
from t2t_keras.text.normalization import normalize

logger = logging.getLogger(__name__)


class PairFilters:
    """Filters of the training text of one or more corpora.

    Args:
        filters: Name of each filter, and a function that returns it for a new corpus.
        rejected: File for the rejected pairs; None for none.
    """

    def __init__(
        self,
        filters: FilterMakers,
        rejected: IO[str] | None = None,
    ):
        self._filters = filters
        self._rejected = rejected
        self._empty_table = ""

    def apply(self, corpus: Corpus, prefix: str = "") -> Corpus:
        """Returns the corpus without the rejected pairs of its training text.

        Args:
            corpus: One without training text is returned unchanged.
            prefix: Begins the line numbers of rejected pairs in the file.
        """
        if not self._filters or "train" not in corpus.splits:
            return corpus
        train = corpus.splits["train"]
        counts = dict.fromkeys(self._filters, 0)
        is_kept = np.frombuffer(self._decide(train, counts, prefix), np.bool_)
        kept = int(is_kept.sum())
        table = count_table(corpus.name, len(is_kept), counts, kept)
        logger.info(table)
        if not kept:
            self._empty_table = table
        open_chunks = functools.partial(_kept_chunks, train.open_chunks, is_kept)
        filtered = dataclasses.replace(
            train,
            open_pairs=functools.partial(chunk_pairs, open_chunks),
            open_chunks=open_chunks,
            open_lines=None,
            num_pairs=kept,
            fingerprint=derived_fingerprint(train.fingerprint, [is_kept]),
            open_old_fingerprint=lambda: derived_fingerprint(
                train.open_old_fingerprint(), [is_kept]
            ),
            is_kept=is_kept,
            left_out=dataclasses.replace(
                train.left_out, dropped_by_filters=len(is_kept) - kept
            ),
        )
        return dataclasses.replace(corpus, splits={**corpus.splits, "train": filtered})

    def check_any_left(self) -> None:
        """Raises `UserError` if all pairs of a corpus have been rejected."""
        if self._empty_table:
            raise none_left_error(self._empty_table)

    def _decide(
        self, split: CorpusSplit, counts: dict[str, int], prefix: str
    ) -> bytearray:
        """Returns a byte per pair, 1 to keep it, and adds to the counts."""
        filters = [make() for make in self._filters.values()]
        names = list(self._filters)
        decisions = bytearray()
        for numbers, sources, targets in _numbered_chunks(split):
            rejected_by = first_rejections(filters, sources, targets)
            for place, name in enumerate(names):
                counts[name] += int((rejected_by == place).sum())
            decisions += (rejected_by < 0).tobytes()
            if self._rejected is None:
                continue
            for i in np.flatnonzero(rejected_by >= 0):
                row = f"{prefix}{numbers[i]}", names[rejected_by[i]]
                self._rejected.write(rejected_row(*row, sources[i], targets[i]))
        return decisions


def _kept_chunks(
    open_chunks: Callable[[], Iterator[TextChunk]], is_kept: np.ndarray
) -> Iterator[TextChunk]:
    """Yields the pairs that are kept, many at a time."""
    first = 0
    for source, target in open_chunks():
        own = is_kept[first : first + len(source)]
        first += len(source)
        yield (
            list(itertools.compress(source, own)),
            list(itertools.compress(target, own)),
        )


def _numbered_chunks(
    split: CorpusSplit,
) -> Iterator[tuple[list[int], list[str], list[str]]]:
    """Yields the pairs of a split, normalized, with the numbers of their lines."""
    number = 0
    for source, target in (split.open_lines or split.open_chunks)():
        pairs = list(zip(map(normalize, source), map(normalize, target), strict=True))
        numbered = list(enumerate(pairs, number + 1))
        number += len(pairs)
        if split.open_lines is not None:  # lines that `open_chunks` leaves out
            numbered = [(i, pair) for i, pair in numbered if all(pair)]
        yield (
            [i for i, _ in numbered],
            [one for _, (one, _) in numbered],
            [other for _, (_, other) in numbered],
        )
