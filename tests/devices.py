"""Distribution strategies on the two logical CPUs of the tests."""

import functools

import tensorflow as tf


@functools.cache
def cpu_strategy(devices: int) -> tf.distribute.Strategy:
    """Strategy that replicates on `devices` logical CPUs, 1 or 2."""
    # Cached: two mirrored strategies in one process use the same keys for their
    # collective operations, and fail if the shapes differ.
    if devices == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(devices)])
