"""A corpus of text tokenized into memory: what a small one needs, at each start."""

import itertools

import numpy as np
import tensorflow as tf

from t2t_keras.input_pipeline.tokenized import (
    TokenizedCorpus,
    corpus_in_memory,
    joined,
    kept_pairs,
)
from t2t_keras.text.vocabulary import SubwordVocabulary

# TF-Text is several times faster on a batch than line by line.
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

    def encode_both(texts):
        return tuple(
            (rows.flat_values, rows.row_lengths())
            for rows in map(
                vocabulary.encode_in_graph, (texts["source"], texts["target"])
            )
        )

    encoded = dataset.batch(_LINES_PER_CALL).map(
        encode_both, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
    chunk = joined(
        kept_pairs(source, target, max_length, vocabulary.size)
        for source, target in itertools.chain(
            [(nothing, nothing)], encoded.as_numpy_iterator()
        )
    )
    chunk.report.check_any_left(max_length)
    return corpus_in_memory(chunk)
