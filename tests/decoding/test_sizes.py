"""Lengths of axes, known or not."""

import tensorflow as tf

from t2t_keras.decoding.search_state import size_of


def test_what_is_known_is_an_int_and_the_rest_is_found_when_it_runs():
    seen = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def sizes(tensor):
        seen.extend(size_of(tensor, axis) for axis in (0, 1))
        return size_of(tensor, 0)

    assert sizes(tf.zeros([5, 3])) == 5
    assert tf.is_tensor(seen[0])
    assert seen[1] == 3
