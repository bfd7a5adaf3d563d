"""Length penalty against values worked out by hand, and its properties."""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.settings import length_penalty


def test_the_papers_alpha_gives_the_values_worked_out_by_hand():
    for length, penalty in ((1, 1.0), (10, 1.733), (27, 2.730), (50, 3.779)):
        assert length_penalty(length, 0.6) == pytest.approx(penalty, abs=5e-4), length


def test_without_alpha_every_length_is_equal():
    np.testing.assert_array_equal(length_penalty(np.arange(1, 9), 0.0), np.ones(8))


def test_arrays_tensors_and_numbers_agree():
    lengths, alpha = np.arange(1.0, 90.0), 0.6
    expected = [math.exp(alpha * math.log((5 + n) / 6)) for n in lengths]
    np.testing.assert_allclose(length_penalty(lengths, alpha), expected)
    tensor = length_penalty(tf.constant(lengths, tf.float32), alpha)
    assert tensor.dtype == tf.float32
    np.testing.assert_allclose(tensor, expected, rtol=1e-6)


def test_the_other_kinds_give_the_values_worked_out_by_hand():
    assert length_penalty(9, 0.5, "power") == pytest.approx(3.0)
    lengths = np.arange(1, 9)
    np.testing.assert_allclose(length_penalty(lengths, 1.0, "power"), lengths)
    assert length_penalty(9, 0.5, "none") == 1.0
    np.testing.assert_array_equal(length_penalty(lengths, 2.0, "none"), np.ones(8))
    tensor = length_penalty(tf.range(0.0, 9.0), tf.constant([[0.0], [2.0]]), "none")
    np.testing.assert_array_equal(tensor, np.ones([2, 9]))


def test_an_alpha_that_cannot_be_meant_is_refused():
    for alpha in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"alpha must be .* at least 0.*alpha="):
            length_penalty(3, alpha)
            pytest.fail(f"{alpha} was taken")
