"""Subword regularization: other segmentations of the same pairs in each epoch.

The segmentation of a pair is a function of seed, epoch, and the number of the pair in
its part of a mixture. So any process can draw an epoch again, and neither resuming nor
sharding nor batching changes it (ADR 0028).

Shapes: N pairs, n of a batch.
"""

import dataclasses
import functools
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.drawing import PieceSampler, TextPiece
from t2t_keras.input_pipeline.batches.mixture import (
    EpochBatching,
    JoinedSentences,
    MixtureBatching,
)
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.plan import PlannedBatch
from t2t_keras.input_pipeline.records.process_pool import Pace, ProcessPool
from t2t_keras.input_pipeline.records.tokenized import (
    Sentences,
    TokenizationReport,
    TokenizedChunk,
    TokenizedCorpus,
    TokenizedSide,
)
from t2t_keras.text.segmentation import check_can_sample
from t2t_keras.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

# The epoch whose last batches are being made, the next, and the one after it, which is
# drawn ahead.
_EPOCHS_KEPT = 3
# A process takes as long to start as encoding thousands of pairs here.
_PAIRS_PER_PROCESS = 50_000
_SECONDS_UNTIL_PROGRESS = 10.0


class SampledCorpus:
    """Sentence pairs that are segmented by chance, differently in each epoch.

    Pair i of epoch e has the number e * N + i. An epoch is drawn when it is first used.
    Its ids are in a temporary file, mapped into memory, as long as it may be used.

    Args:
        corpus: The pairs with their usual segmentations and their text.
        vocabulary: The vocabulary of its ids.
        rate: Rate of sampling, in (0, 1); see `SubwordSampler`.
        seed: Seed of the draws, in [0, 2**64).
        max_length: Maximum tokens of a side, end of sentence included. A pair that is
            drawn longer than this, or than every pair of epoch 0 and of `corpus`,
            gets its usual segmentation: batches of the same shapes hold all epochs.
        workers: Number of processes that encode; 0 for none but this one. Default: one
            for 50,000 pairs, at most one for each core.

    Raises:
        ValueError: If the corpus has no text.
    """

    def __init__(
        self,
        corpus: TokenizedCorpus,
        vocabulary: Vocabulary,
        *,
        rate: float,
        seed: int,
        max_length: int,
        workers: int | None = None,
    ):
        if not corpus.texts:
            raise ValueError("corpus must have been made with its text. Received: none")
        check_can_sample(vocabulary)  # and not first in another process
        self._corpus = corpus
        self._vocabulary = vocabulary.to_bytes()
        self._rate = rate
        self._seed = seed
        self._max_length = max_length
        if workers is None:
            cores = len(os.sched_getaffinity(0))
            workers = min(cores, len(corpus) // _PAIRS_PER_PROCESS)
        self._workers = workers
        self._sampler: PieceSampler | None = None
        self._lock = threading.Lock()
        self._drawn: dict[int, TokenizedCorpus] = {}
        self._limits = max_length, max_length
        first_N2 = self.draw(0).lengths
        longest = np.maximum(first_N2.max(axis=0), corpus.lengths.max(axis=0))
        self._limits = int(longest[0]), int(longest[1])
        self.source: Sentences = _SampledSentences(self, lambda drawn: drawn.source)
        self.target: Sentences = _SampledSentences(self, lambda drawn: drawn.target)
        self.links = corpus.links and corpus.links.of(self.source, self.target)

    def __len__(self) -> int:
        return len(self._corpus)

    @property
    def report(self) -> TokenizationReport:
        """Numbers of pairs kept and dropped, which do not depend on the epoch."""
        return self._corpus.report

    def representative_lengths(self) -> np.ndarray:
        """Returns lengths [N + 1, 2] for the choice of batch shapes.

        They are the lengths of epoch 0, then the longest source and the longest target
        of all epochs.
        """
        return np.concatenate([self.draw(0).lengths, [self._limits]])

    def pair_lengths(self, indices: np.ndarray) -> np.ndarray:
        """Returns source and target lengths [n, 2] of the given pairs."""
        epochs, numbers = np.divmod(indices, len(self))
        lengths = np.empty([len(indices), 2], np.int32)
        for epoch in np.unique(epochs).tolist():
            own = epochs == epoch
            lengths[own] = self.draw(epoch).lengths[numbers[own]]
        return lengths

    def draw(self, epoch: int) -> TokenizedCorpus:
        """Returns the pairs of an epoch, numbered from 0; drawn unless they are kept.

        Raises:
            UserError: If a process that encodes was killed, the disk is full, or the
                text has changed.
        """
        drawn = self._drawn.get(epoch)
        if drawn is not None:  # without waiting for a thread that draws another epoch
            return drawn
        with self._lock:
            if epoch not in self._drawn:
                newest = [*self._drawn.items(), (epoch, self._encode(epoch))]
                self._drawn = dict(newest[-_EPOCHS_KEPT:])
            return self._drawn[epoch]

    def _encode(self, epoch: int) -> TokenizedCorpus:
        pace = Pace(len(self))
        is_told = self._drawn
        lengths = [np.zeros([0, 2], np.int32)]
        dtype = np.dtype(np.uint16)
        try:
            with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
                for piece, chunk in self._encode_pieces(self._pieces(epoch)):
                    source_ids, target_ids = chunk.tokens
                    source.write(source_ids.tobytes())
                    target.write(target_ids.tobytes())
                    dtype = source_ids.dtype
                    lengths.append(chunk.lengths)
                    pace.add(len(piece.source))
                    if not is_told and pace.seconds >= _SECONDS_UNTIL_PROGRESS:
                        logger.info(
                            f"segmenting an epoch: {pace.describe()}  "
                            f"left {pace.seconds_left:,.0f}s"
                        )
                        is_told = True
                lengths_N2 = np.concatenate(lengths)
                self._check_count(len(lengths_N2))
                source_side = _map_side(source, dtype, lengths_N2[:, 0])
                target_side = _map_side(target, dtype, lengths_N2[:, 1])
        except OSError as error:
            raise UserError(
                "Cannot write the segmentations of an epoch to "
                f"{tempfile.gettempdir()}: {error.strerror}. Make room, or set TMPDIR "
                "to another folder."
            ) from error
        return TokenizedCorpus(source_side, target_side, self.report)

    def _check_count(self, pairs: int) -> None:
        if pairs != len(self):
            raise UserError(
                f"The corpus had {len(self):,} pairs at the start, and its text has "
                f"{pairs:,} now. Do not change it while a run trains on it."
            )

    def _pieces(self, epoch: int) -> Iterator[TextPiece]:
        """Yields the text, each piece with the key of its draws."""
        for part, text in enumerate(self._corpus.texts):
            first = 0
            for source, target in text.open_lines():
                key = self._seed, epoch, part, first, text.prefix, self._limits
                yield TextPiece(source, target, *key)
                first += len(source)

    def _encode_pieces(
        self, pieces: Iterator[TextPiece]
    ) -> Iterator[tuple[TextPiece, TokenizedChunk]]:
        make = functools.partial(
            PieceSampler, self._vocabulary, self._max_length, self._rate
        )
        if self._workers:
            with ProcessPool(make, self._workers) as pool:
                yield from pool.map(pieces)
            return
        if self._sampler is None:  # it remembers words from epoch to epoch
            self._sampler = make()
        for piece in pieces:
            yield piece, self._sampler(piece)


def _map_side(file: Any, dtype: np.dtype, lengths: np.ndarray) -> TokenizedSide:
    """Returns the sentences in a file, which stay after it is closed and removed."""
    file.flush()
    tokens = np.asarray(np.memmap(file, dtype, "r"))
    ends = np.cumsum(lengths, dtype=np.int64)
    return TokenizedSide(tokens, np.concatenate([[0], ends]))


class _SampledSentences:
    """One side of a `SampledCorpus`."""

    def __init__(
        self, corpus: SampledCorpus, side: Callable[[TokenizedCorpus], Sentences]
    ):
        self._corpus = corpus
        self._side = side

    @property
    def lengths(self) -> np.ndarray:
        """[N] lengths in epoch 0."""
        return self._side(self._corpus.draw(0)).lengths

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `tokenized.Sentences.gather`."""
        if not len(indices):  # a batch of padding, which is of no epoch
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        epochs, numbers = np.divmod(indices, len(self._corpus))
        different, place_n = np.unique(epochs, return_inverse=True)
        sides = [self._side(self._corpus.draw(epoch)) for epoch in different.tolist()]
        if len(sides) == 1:
            return sides[0].gather(numbers)
        # Only where batches of two epochs are gathered in one call.
        return JoinedSentences(sides).gather(numbers + len(self._corpus) * place_n)


@dataclasses.dataclass(frozen=True, eq=False)
class SampledBatching(EpochBatching):
    """Batches of a `SampledCorpus`: another strategy on the lengths of each epoch.

    Attributes:
        corpus: The pairs.
        strategy: Batches the pairs of an epoch; its own lengths do not matter.
    """

    corpus: SampledCorpus
    strategy: BucketBatching | PackedBatching | MixtureBatching

    def plan(self, seed: int, epoch: int, window: int = 0) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch."""
        lengths = self.corpus.draw(epoch).lengths
        strategy = dataclasses.replace(self.strategy, lengths=lengths)
        first = epoch * len(self.corpus)
        for planned in strategy.plan(seed, epoch):
            yield planned._replace(indices=planned.indices + first)
