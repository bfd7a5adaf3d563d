"""Drawing of the segmentations of text, pair by pair (ADR 0028); no TensorFlow."""

import dataclasses

from t2t_keras.input_pipeline.batches.plan import random_stream
from t2t_keras.input_pipeline.records.tokenized import TokenizedChunk, filter_pairs
from t2t_keras.text.segmentation import SubwordSampler
from t2t_keras.text.stored_vocabulary import vocabulary_from_bytes
from t2t_keras.text.vocabulary import join_rows


@dataclasses.dataclass(frozen=True)
class TextPiece:
    """Consecutive pairs of text, and the key of the segmentations to draw."""

    source: list[bytes]
    target: list[bytes]
    seed: int
    epoch: int
    part: int
    """Part of a mixture, 0 for the main corpus."""
    first_pair: int
    """Number of the piece's first pair in its part."""
    prefix: tuple[int, ...]
    """Ids before each source: a tag."""
    limits: tuple[int, int]
    """Longest source and target. A pair that would be longer is not drawn."""


class PieceSampler:
    """Draws the segmentations of pieces of text.

    Args:
        vocabulary: The vocabulary, from `Vocabulary.to_bytes`.
        max_length: Longest side that is kept, end of sentence included.
        rate: Rate of subword regularization, in (0, 1).
    """

    def __init__(self, vocabulary: bytes, max_length: int, rate: float):
        self._vocabulary = vocabulary_from_bytes(vocabulary)
        self._max_length = max_length
        self._sampler = SubwordSampler(self._vocabulary, rate)

    def __call__(self, piece: TextPiece) -> TokenizedChunk:
        """Returns ids drawn for each pair, by numbers of its own."""
        rows: tuple[list[list[int]], ...] = ([], [])
        texts = zip(piece.source, piece.target, strict=True)
        for number, pair in enumerate(texts, piece.first_pair):
            random = random_stream(piece.seed, piece.epoch, piece.part, number)
            source, target = (self._sampler.encode(text, random) for text in pair)
            source = [*piece.prefix, *source]
            if len(source) > piece.limits[0] or len(target) > piece.limits[1]:
                source, target = map(self._vocabulary.encode, pair)
                source = [*piece.prefix, *source]
            rows[0].append(source)
            rows[1].append(target)
        source_rows, target_rows = map(join_rows, rows)
        return filter_pairs(
            source_rows, target_rows, self._max_length, self._vocabulary.largest_size
        )
