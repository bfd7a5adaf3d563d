"""Update of a replica: dropout keys and timing.

`test_step.py` checks the update itself against NumPy.
"""

import time

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.update import row_keys
from tests.training.steppers import batches, build_stepper, toy
from tests.training.toy_models import ToyTranslator

SLEEP = 0.4


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


class SlowBackwards(ToyTranslator):
    """Toy model with a slow gradient and a fast loss."""

    def hidden_states(self, inputs, dropout_keys=None):
        @tf.custom_gradient
        def slow(hidden):
            def gradient(grad_hidden):
                def wait(tensor):
                    time.sleep(SLEEP)
                    return tensor

                result = tf.py_function(wait, [grad_hidden], grad_hidden.dtype)
                result.set_shape(grad_hidden.shape)
                return result

            return tf.identity(hidden), gradient

        return slow(super().hidden_states(inputs, dropout_keys))


@pytest.mark.parametrize(("devices", "timed"), [(1, True), (2, False)])
def test_no_clock_is_looked_at_where_nobody_asks_or_shares(devices, timed) -> None:
    _, _, stepper = build_stepper(toy, devices)
    sums = stepper.train(batches(11)[0], timed=timed)
    assert float(sums.reduce_seconds) == 0.0


def test_the_time_to_the_sum_begins_with_the_gradients() -> None:
    """It does not begin with the loss, which is ready earlier."""
    _, _, stepper = build_stepper(
        lambda: SlowBackwards(vocabulary_size=11, width=6, dropout_rate=0.3), 2
    )
    stepper.train(batches(11)[0], timed=True)
    start = time.monotonic()
    seconds = float(stepper.train(batches(11)[0], timed=True).reduce_seconds)
    elapsed = time.monotonic() - start
    assert elapsed > SLEEP
    # On one core, the devices sleep one after the other, and the first one waits.
    assert 0.0 < seconds < elapsed - 0.75 * SLEEP
