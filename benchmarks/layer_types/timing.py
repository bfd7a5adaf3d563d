"""Seconds of a layer's forward pass, and of it with its gradients, in turn."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from benchmarks.layer_types.layers import LayerType

# What the clock and a call of TensorFlow's cost must vanish beside what is timed.
_LEAST_SECONDS = 0.02


class Point(NamedTuple):
    """A layer at one size."""

    layer: str
    length: int
    width: int


class Seconds(NamedTuple):
    """Medians over rounds."""

    forward: float
    training: float


def step_of(
    layer: Callable[[Any], Any], rows: int, length: int, width: int, training: bool
) -> Callable[[], float]:
    """Returns a function that runs a layer once on random numbers, and waits for it.

    Args:
        layer: [B, n, d] to [B, n, d].
        rows: B.
        length: n.
        width: d.
        training: Whether gradients of inputs and weights are computed, too.
    """
    inputs = tf.random.stateless_normal((rows, length, width), (1, 2))
    layer(inputs[:, :1])  # makes its weights
    weights = [weight.value for weight in getattr(layer, "trainable_weights", [])]

    def run(given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            total = tf.reduce_sum(layer(given) ** 2)
        if not training:
            return total
        gradients = tape.gradient(total, [given, *weights])
        return tf.add_n([tf.reduce_sum(gradient) for gradient in gradients])

    traced = tf.function(run)
    return lambda: float(traced(inputs))


def measured_seconds(
    layers: Sequence[LayerType],
    sizes: Sequence[tuple[int, int]],
    rows: int,
    rounds: int,
) -> dict[Point, Seconds]:
    """Returns what each layer takes at each (length, width), all timed in turn."""
    steps = {}
    for layer in layers:
        for length, width in sizes:
            for training in (False, True):
                step = step_of(layer.build(width), rows, length, width, training)
                step()
                begin = time.perf_counter()
                step()
                once = time.perf_counter() - begin
                repeats = max(1, round(_LEAST_SECONDS / once))
                steps[Point(layer.name, length, width), training] = step, repeats
    taken: dict[tuple[Point, bool], list[float]] = {key: [] for key in steps}
    for _ in range(rounds):
        for key, (step, repeats) in steps.items():
            begin = time.perf_counter()
            for _ in range(repeats):
                step()
            taken[key].append((time.perf_counter() - begin) / repeats)
    return {
        point: Seconds(
            statistics.median(taken[point, False]),
            statistics.median(taken[point, True]),
        )
        for point, training in steps
        if training
    }
