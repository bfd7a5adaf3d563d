"""Update of a replica: dropout keys and timing.

`test_step.py` checks the update itself against NumPy.
"""

import time

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.update import row_keys
from tests.training.steppers import batches, build_stepper
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
        def wait(tensor):
            time.sleep(SLEEP)
            return tensor

        @tf.custom_gradient
        def slow(hidden):
            def gradient(grad_hidden):
                result = tf.py_function(wait, [grad_hidden], grad_hidden.dtype)
                result.set_shape(grad_hidden.shape)
                return result

            return tf.identity(hidden), gradient

        return slow(super().hidden_states(inputs, dropout_keys))


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "timed"), [(1, True), (2, False), (2, True)])
def test_the_time_to_the_sum_begins_with_the_gradients(devices, timed) -> None:
    """It does not begin with the loss, which is ready earlier."""
    sizes = {"vocabulary_size": 11, "width": 6, "dropout_rate": 0.3}
    _, _, stepper = build_stepper(lambda: SlowBackwards(**sizes), devices)
    stepper.train(batches(11)[0], timed=timed)
    start = time.monotonic()
    seconds = float(stepper.train(batches(11)[0], timed=timed).reduce_seconds)
    elapsed = time.monotonic() - start
    assert elapsed > SLEEP
    if timed and devices > 1:
        # On one core, the devices sleep one after the other, and the first one waits.
        assert 0.0 < seconds < elapsed - 0.75 * SLEEP
    else:
        assert seconds == 0.0
