"""Seconds of a layer's forward pass, without and with gradients."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from benchmarks.layer_types.layers import LayerType

# Least time to measure: long compared with the clock's resolution and a TensorFlow
# call.
_LEAST_SECONDS = 0.02


class Point(NamedTuple):
    """Layer at one size."""

    layer: str
    length: int
    width: int


class Seconds(NamedTuple):
    """Median seconds over the rounds, without and with gradients."""

    forward: float
    training: float


def build_step(
    layer: Callable[[Any], Any], rows: int, length: int, width: int, training: bool
) -> Callable[[], float]:
    """Returns a function that runs a layer once on random inputs and waits for it.

    Args:
        layer: Function from [B, n, d] to [B, n, d].
        rows: B.
        length: n.
        width: d.
        training: Whether to compute gradients of inputs and weights, too.
    """
    inputs = tf.random.stateless_normal((rows, length, width), (1, 2))
    layer(inputs[:, :1])  # creates its weights
    weights = [weight.value for weight in getattr(layer, "trainable_weights", [])]

    def run(values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            total = tf.reduce_sum(layer(values) ** 2)
        if not training:
            return total
        gradients = tape.gradient(total, [values, *weights])
        return tf.add_n([tf.reduce_sum(gradient) for gradient in gradients])

    traced = tf.function(run)
    return lambda: float(traced(inputs))


def measure_seconds(
    layers: Sequence[LayerType],
    sizes: Sequence[tuple[int, int]],
    rows: int,
    rounds: int,
) -> dict[Point, Seconds]:
    """Returns the seconds of each layer at each (length, width), timed in turn."""
    steps = {}
    for layer in layers:
        for length, width in sizes:
            for training in (False, True):
                step = build_step(layer.build(width), rows, length, width, training)
                step()
                start = time.perf_counter()
                step()
                once = time.perf_counter() - start
                repeats = max(1, round(_LEAST_SECONDS / once))
                steps[Point(layer.name, length, width), training] = step, repeats
    seconds: dict[tuple[Point, bool], list[float]] = {key: [] for key in steps}
    for _ in range(rounds):
        for key, (step, repeats) in steps.items():
            start = time.perf_counter()
            for _ in range(repeats):
                step()
            seconds[key].append((time.perf_counter() - start) / repeats)
    return {
        point: Seconds(
            statistics.median(seconds[point, False]),
            statistics.median(seconds[point, True]),
        )
        for point, training in steps
        if training
    }
