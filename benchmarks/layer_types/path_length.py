"""Maximum path length: layers or steps until every output depends on every input.

Exact, from gradients of the real layers: output i depends on input j if its gradient is
not 0. The dependencies of a stack are the product of its layers' dependencies.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.layer_types.layers import (
    KERNEL,
    NEIGHBORHOOD,
    AttentionAlone,
    RestrictedAlone,
)

_WIDTH = 8


def dependencies(layer: Callable[[Any], Any], length: int) -> np.ndarray:
    """Returns [n, n] bool: whether output i depends on input j.

    Row i of a batch selects only output i, so one gradient gives all dependencies.

    Args:
        layer: Function from [B, n, d] to [B, n, d]; rows must not affect each other.
        length: n.
    """
    random = np.random.default_rng(0)
    row = random.normal(size=(1, length, _WIDTH)).astype("float32")
    inputs = tf.constant(np.repeat(row, length, axis=0))
    factors = np.zeros((length, length, _WIDTH), "float32")
    factors[range(length), range(length)] = random.normal(size=(length, _WIDTH))
    layer(inputs)  # creates its weights

    # XLA, because oneDNN's gradient crashed at times for short rows with wide dilation.
    @tf.function(jit_compile=True)
    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            selected = tf.reduce_sum(layer(inputs) * factors)
        return tape.gradient(selected, inputs)

    return (gradient().numpy() != 0).any(-1)


def steps_to_reach(steps: Iterator[np.ndarray], required: np.ndarray) -> int:
    """Returns the number of steps until all required dependencies exist.

    Args:
        steps: Dependencies of each step's outputs on its inputs, [n, n] bool.
        required: Dependencies of the last outputs on the first inputs, [n, n] bool.

    Raises:
        ValueError: If there are too few steps.
    """
    reached = np.eye(len(required), dtype=bool)
    for count, step in enumerate(steps, start=1):
        reached = (step.astype("float32") @ reached) > 0
        if reached[required].all():
            return count
    raise ValueError("There are not enough steps to reach all that is wanted.")


def repeat(step: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the same step n times, which is always enough."""
    for _ in range(len(step)):
        yield step


def recurrence(length: int) -> np.ndarray:
    """Returns the dependencies of one recurrent step: each state and the one before."""
    return np.eye(length, dtype=bool) | np.eye(length, k=-1, dtype=bool)


def dilated_stack(length: int) -> Iterator[np.ndarray]:
    """Returns convolutions whose dilation is multiplied by k from layer to layer.

    It grows while it is less than the length, and then restarts at 1: positions beyond
    the ends pass nothing on, so one round may not be enough.
    """
    dilations = [KERNEL**i for i in range(length) if KERNEL**i < max(2, length)]
    layers = [
        keras.layers.Conv1D(_WIDTH, KERNEL, padding="same", dilation_rate=dilation)
        for dilation in dilations
    ]
    steps = [dependencies(layer, length) for layer in layers]
    return itertools.chain.from_iterable([steps] * length)


def path_lengths(length: int) -> dict[str, int]:
    """Returns the longest of the shortest paths between two positions.

    Paths are counted in layers. For recurrent layers, which pass states forward within
    a layer, they are counted in steps: one for each state that takes the state before
    it, and one from the first input to the first state.
    """
    all_pairs = np.ones((length, length), bool)
    convolution = keras.layers.Conv1D(_WIDTH, KERNEL, padding="same")
    layers = {
        "self-attention": AttentionAlone(),
        f"restricted, r = {NEIGHBORHOOD}": RestrictedAlone(),
        f"convolution, k = {KERNEL}": convolution,
    }
    lengths = {
        name: steps_to_reach(repeat(dependencies(layer, length)), all_pairs)
        for name, layer in layers.items()
    }
    forward = np.tri(length, dtype=bool)
    lengths["recurrent"] = 1 + steps_to_reach(repeat(recurrence(length)), forward)
    lengths[f"convolution, k = {KERNEL}, dilated by 1, {KERNEL}, {KERNEL**2}, …"] = (
        steps_to_reach(dilated_stack(length), all_pairs)
    )
    return lengths
