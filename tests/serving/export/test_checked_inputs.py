"""Checks of a request's ids, options and texts: corrected or refused."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.serving.export.limits import (
    check_ids,
    check_option,
)

V = 20


def clean_ids(rows, max_length=5):
    ids, truncated = check_ids(tf.constant(rows, tf.int32), V, max_length)
    return ids.numpy().tolist(), truncated.numpy().tolist()


def test_invalid_ids_become_unk():
    rows = [[5, 19, 1, 0], [-1, 20, 7, 1], [2**31 - 1, -(2**31), 1, 0]]
    expected = [[5, 19, 1, 0], [2, 2, 7, 1], [2, 2, 1, 0]]
    assert clean_ids(rows) == (expected, [False] * 3)


def test_a_row_that_is_too_long_is_cut_and_gets_an_eos():
    rows = [[3, 4, 5, 6, 7, 8, 1], [3, 4, 5, 6, 1, 0, 0], [3, 4, 5, 6, 7, 0, 0],
            [0, 0, 0, 0, 0, 0, 9]]  # fmt: skip
    expected = [[3, 4, 5, 6, 1], [3, 4, 5, 6, 1], [3, 4, 5, 6, 7], [0, 0, 0, 0, 1]]
    assert clean_ids(rows) == (expected, [True, False, False, True])
    assert clean_ids([[3, 4, 1]], max_length=1) == ([[1]], [True])


def test_empty_rows_have_one_position():
    for shape, expected in [((0, 0), (0, 1)), ((2, 0), (2, 1)), ((0, 9), (0, 5))]:
        ids, truncated = check_ids(tf.zeros(shape, tf.int32), V, 5)
        assert ids.shape == expected, shape
        assert truncated.shape == expected[:1], shape


def test_an_option_is_for_all_rows_or_for_each():
    shape = tf.constant([3])
    for option in (7, [7], [7, 7, 7]):
        checked = check_option(tf.constant(option), shape, "x")
        np.testing.assert_array_equal(checked, [7, 7, 7])
    with pytest.raises(tf.errors.InvalidArgumentError):
        check_option(tf.constant([1, 2]), shape, "x")
