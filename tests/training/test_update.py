"""What a replica's part of an update is made of: keys of dropout, and clocks.

The update itself is held against NumPy in `test_step.py`.
"""

import time

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.update import row_keys
from tests.training.steppers import batches, built, toy


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
    compiled = tf.function(row_keys, jit_compile=True)(1, step, tf.range(9))
    np.testing.assert_array_equal(compiled, whole)


@pytest.mark.parametrize("devices", [1, 2])
def test_the_time_between_gradients_and_their_sum_is_part_of_the_steps(devices) -> None:
    # A difference of clocks in float32 would be 0 or minutes.
    _, _, stepper = built(toy, devices)
    stepper.train(batches()[0])
    start = time.monotonic()
    seconds = float(stepper.train(batches()[0]).reduce_seconds)
    step_seconds = time.monotonic() - start
    if devices == 1:
        assert seconds == 0.0
    else:
        assert 0.0 < seconds < step_seconds
