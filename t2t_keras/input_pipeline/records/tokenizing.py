"""A corpus of text tokenized into memory: what a small one needs, at each start."""

import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_keras.input_pipeline.records.tokenized import (
    TokenizedCorpus,
    corpus_in_memory,
    joined,
    kept_pairs,
)
from t2t_keras.text.vocabulary import SubwordVocabulary

TokenRows: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Rows of ids end to end, and how many are each row's."""

# Crossing from the graph to Python costs as much for a thousand lines as for one.
_LINES_PER_CALL = 1024


def tokenize_corpus(
    dataset: tf.data.Dataset, vocabulary: SubwordVocabulary, max_length: int
) -> TokenizedCorpus:
    """Returns a corpus as ids, without the pairs that cannot be trained on.

    Args:
        dataset: Elements `{"source": ..., "target": ...}`, string scalars.
        vocabulary: Encodes both sides.
        max_length: Longest side that is kept, end of sentence included. At
            least 2.

    Raises:
        ValueError: If `max_length` is below 2.
        UserError: If no pair is left.
    """
    if max_length < 2:
        raise ValueError(f"max_length must be at least 2. Received: {max_length}")

    def encoded() -> Iterator[tuple[TokenRows, TokenRows]]:
        batches: Any = dataset.batch(_LINES_PER_CALL).prefetch(tf.data.AUTOTUNE)
        for texts in batches.as_numpy_iterator():
            yield (
                vocabulary.encode_all(texts["source"].tolist()),
                vocabulary.encode_all(texts["target"].tolist()),
            )

    nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
    chunk = joined(
        kept_pairs(source, target, max_length, vocabulary.size)
        for source, target in itertools.chain([(nothing, nothing)], encoded())
    )
    chunk.report.check_any_left(max_length)
    return corpus_in_memory(chunk)
