import numpy as np
import tensorflow as tf

from t2t_keras.text import padding


def pad_by_hand(rows, width):
    return [[*row, *[0] * (width - len(row))] for row in rows]


def made_up_rows(seed):
    random = np.random.default_rng(seed)
    lengths = [0, 5, 1, *random.integers(0, 9, 6)]
    return [random.integers(1, 70_000, length).tolist() for length in lengths]


def test_rows_are_padded_behind_and_below():
    rows = made_up_rows(1)
    width = max(map(len, rows))
    ragged = tf.ragged.constant(rows, dtype=tf.int32)
    plain = padding.pad_rows(ragged)
    assert plain.dtype == tf.int32
    assert plain.numpy().tolist() == pad_by_hand(rows, width)
    wide = padding.pad_rows(ragged, np.array([len(rows) + 2, width + 3]))
    assert wide.numpy().tolist() == pad_by_hand([*rows, [], []], width + 3)


def test_sentences_are_padded_to_the_longest_and_to_one_column_at_least():
    rows = made_up_rows(2)
    expected = pad_by_hand(rows, max(map(len, rows)))
    assert padding.pad_sentences(rows).numpy().tolist() == expected
    assert padding.pad_sentences([[], []]).numpy().tolist() == [[0], [0]]
    assert padding.pad_sentences([]).shape == (0, 1)
    assert padding.pad_sentences(rows).dtype == tf.int32


def test_targets_are_shifted_by_one():
    rows = pad_by_hand(made_up_rows(3), 9)
    expected = [[0, *row[:-1]] for row in rows]
    assert padding.shift_right(tf.constant(rows)).numpy().tolist() == expected
    assert padding.shift_right(tf.zeros([0, 3], tf.int32)).shape == (0, 3)
