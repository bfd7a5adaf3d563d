"""How far apart positions are: steps until each has heard of each.

Exact, from gradients of the real layers: output i depends on input j where its
gradient is not 0. A stack's dependencies are products of its layers'.
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

    Row i of a batch asks for output i alone, so one gradient answers for all.

    Args:
        layer: [B, n, d] to [B, n, d], rows apart from one another.
        length: n.
    """
    random = np.random.default_rng(0)
    once = random.normal(size=(1, length, _WIDTH)).astype("float32")
    inputs = tf.constant(np.repeat(once, length, axis=0))
    factors = np.zeros((length, length, _WIDTH), "float32")
    factors[range(length), range(length)] = random.normal(size=(length, _WIDTH))
    layer(inputs)  # makes its weights

    # XLA: oneDNN's gradient of short and widely dilated rows crashed now and then.
    @tf.function(jit_compile=True)
    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            asked = tf.reduce_sum(layer(inputs) * factors)
        return tape.gradient(asked, inputs)

    return (gradient().numpy() != 0).any(-1)


def steps_to_reach(steps: Iterator[np.ndarray], wanted: np.ndarray) -> int:
    """Returns how many steps it takes until all wanted dependencies are there.

    Args:
        steps: [n, n] bool each, what one step's outputs depend on of its inputs.
        wanted: [n, n] bool, what the last outputs shall depend on of the first inputs.
    """
    reached = np.eye(len(wanted), dtype=bool)
    for count, step in enumerate(steps, start=1):
        reached = (step.astype("float32") @ reached) > 0
        if reached[wanted].all():
            return count
    raise ValueError("There are not enough steps to reach all that is wanted.")


def repeated(step: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the same step as often as it could matter."""
    for _ in range(len(step)):
        yield step


def recurrence(length: int) -> np.ndarray:
    """Returns what a state depends on after one step: itself and the one before."""
    return np.eye(length, dtype=bool) | np.eye(length, k=-1, dtype=bool)


def dilated_stack(length: int) -> Iterator[np.ndarray]:
    """Returns convolutions whose dilation grows k-fold from layer to layer.

    While it is within the length, and then from 1 again: beyond the ends there is
    nothing that could hand on, so one round need not be enough.
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

    In layers; of recurrent layers, which hand on within a layer and only forward, in
    steps: each of its states but the first takes what the one before left it, and
    one step more makes the first state of its input.
    """
    everything = np.ones((length, length), bool)
    convolution = keras.layers.Conv1D(_WIDTH, KERNEL, padding="same")
    once = {
        "self-attention": AttentionAlone(),
        f"restricted, r = {NEIGHBORHOOD}": RestrictedAlone(),
        f"convolution, k = {KERNEL}": convolution,
    }
    found = {
        name: steps_to_reach(repeated(dependencies(layer, length)), everything)
        for name, layer in once.items()
    }
    forward = np.tri(length, dtype=bool)
    found["recurrent"] = 1 + steps_to_reach(repeated(recurrence(length)), forward)
    found[f"convolution, k = {KERNEL}, dilated by 1, {KERNEL}, {KERNEL**2}, …"] = (
        steps_to_reach(dilated_stack(length), everything)
    )
    return found
