"""Grouped top-k against a stable sort in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding import candidates
from t2t_keras.decoding.candidates import grouped_top_k


def expected_top_k(values, k):
    """Returns values and indices, largest first, the lower index among equals."""
    index = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(values, index, axis=1), index


# Widths: less than the number of groups, slightly more, a multiple of it, a prime.
@pytest.mark.parametrize(("width", "k"), [(7, 7), (161, 5), (640, 9), (1009, 3)])
@pytest.mark.parametrize("distinct", [None, 40])
def test_it_is_a_stable_sort_cut_off(width, k, distinct):
    generator = np.random.default_rng(width)
    values = generator.normal(size=[6, width]).astype(np.float32)
    if distinct:  # many equals, within groups and across them
        values = generator.integers(distinct, size=[6, width]).astype(np.float32)
    values[0] = -np.inf
    values[1, 3:] = -np.inf
    values[2] = np.sort(values[2])
    values[3] = np.sort(values[3])[::-1]
    for compiled in (False, True):
        found = tf.function(grouped_top_k, jit_compile=compiled, autograph=False)(
            values, k
        )
        for ours, theirs in zip(found, expected_top_k(values, k), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert found[1].dtype == tf.int32


def test_groups_left_in_order_of_their_maxima_would_be_caught(monkeypatch):
    values = np.zeros([1, 640], np.float32)
    values[0, [5, 70, 71]] = [1.0, 1.0, 2.0]
    _, expected = expected_top_k(values, 3)
    np.testing.assert_array_equal(grouped_top_k(values, 3)[1], expected)
    monkeypatch.setattr(candidates.tf, "sort", lambda groups, axis: groups)
    assert grouped_top_k(values, 3)[1].numpy().tolist() != expected.tolist()
