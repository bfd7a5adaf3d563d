"""The devices of the tests: two logical CPUs, and a strategy for each number."""

import functools

import tensorflow as tf


@functools.cache
def strategy_of(devices: int) -> tf.distribute.Strategy:
    # Made once: two mirrored strategies of one process share the numbers of their
    # collective operations, and fail on one another's shapes.
    if devices == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(devices)])
