"""Padding of token ids into a matrix, and the right shift for teacher forcing.

Shapes: n sentences, B rows, L columns.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_keras.text.vocabulary import PAD_ID
from t2t_keras.typing import Tensor


def pad_rows(rows: tf.RaggedTensor, shape: Tensor | None = None) -> Tensor:
    """Returns rows of ids as a matrix [B, L], PAD_ID after each row.

    Args:
        rows: [n, (length)] ids.
        shape: [2] integers, B >= n and L >= any length, neither checked. Default: n and
            the longest.

    >>> rows = tf.RaggedTensor.from_row_lengths([5, 6, 1, 8, 1], [3, 2])
    >>> pad_rows(rows, (3, 4)).numpy()
    array([[5, 6, 1, 0],
           [8, 1, 0, 0],
           [0, 0, 0, 0]], dtype=int32)
    """
    matrix = rows.to_tensor(PAD_ID, shape=shape)
    matrix.set_shape([None, None])
    return matrix


def pad_sentences(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Returns ids [n, L] int32, PAD_ID after each; L is at least 1, even if n is 0."""
    ids = np.fromiter(itertools.chain.from_iterable(sentences), np.int32)
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    rows = tf.RaggedTensor.from_row_lengths(ids, lengths)
    return pad_rows(rows, (len(sentences), max(1, lengths.max(initial=0))))


def shift_right(targets_BT: Tensor) -> Tensor:
    """Returns the decoder's input [B, T] for targets, shifted right, PAD_ID first.

    The decoder sees the true tokens before the one that it predicts (teacher forcing).
    There is no start token: the embedding of PAD_ID is a zero vector.

    >>> shift_right(np.int32([[7, 8, 1, 0], [9, 1, 0, 0]])).numpy()
    array([[0, 7, 8, 1],
           [0, 9, 1, 0]], dtype=int32)
    """
    return tf.pad(targets_BT, [[0, 0], [1, 0]], constant_values=PAD_ID)[:, :-1]
