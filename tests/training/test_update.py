"""Update of a replica: dropout keys and timing.

`test_step.py` checks the update itself against NumPy.
"""

import numpy as np
import tensorflow as tf

from t2t_keras.training.update import row_keys


def test_the_keys_of_a_step_differ_from_row_to_row_and_step_to_step() -> None:
    keys = row_keys(1, tf.constant(7, tf.int64), tf.range(5_000)).numpy()
    assert keys.dtype == np.uint32
    assert len(set(keys)) == 5_000
    firsts = {
        int(row_keys(seed, tf.constant(step, tf.int64), tf.range(1))[0])
        for seed in (0, 1, 2**32 - 1)
        for step in range(40)
    }
    assert len(firsts) == 120


def test_a_row_has_its_key_wherever_it_is_computed() -> None:
    step = tf.constant(3, tf.int64)
    whole = row_keys(1, step, tf.range(9))
    parts = [row_keys(1, step, rows) for rows in (tf.range(5), 5 + tf.range(4))]
    np.testing.assert_array_equal(tf.concat(parts, axis=0), whole)
    compiled = tf.function(row_keys, jit_compile=True, autograph=False)(
        1, step, tf.range(9)
    )
    np.testing.assert_array_equal(compiled, whole)
