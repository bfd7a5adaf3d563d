"""Adam in float64 NumPy, in the two forms in use.

Kingma & Ba 2015, arXiv 1412.6980. Both keep the same moments; they differ in what
epsilon is added to. Algorithm 1 adds it to the root of the *corrected* second
moment, sqrt(v / (1 - beta_2^t)). The reordering at the end of section 2, which
TensorFlow and Keras compute, moves both corrections into the step size and adds
epsilon to sqrt(v) itself, so that at step t it acts like an epsilon of
epsilon / sqrt(1 - beta_2^t) in Algorithm 1: larger, and at step 1 with
beta_2 = 0.98 about seven times. With epsilon 1e-9 the two part only where a
gradient is about that small.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Adam:
    """The constants; the defaults are those of section 5.3 of the Transformer paper."""

    beta_1: float = 0.9
    beta_2: float = 0.98
    epsilon: float = 1e-9


@dataclass(frozen=True)
class AdamState:
    """A parameter with its first and second moment after `step` updates."""

    parameter: Array
    first_moment: Array
    second_moment: Array
    step: int


AdamUpdate = Callable[[AdamState, Array, float, Adam], AdamState]


def start(parameter: Array) -> AdamState:
    """Before the first update: no moments, step 0."""
    zeros = np.zeros_like(parameter)
    return AdamState(parameter, zeros, zeros, step=0)


def algorithm_1(
    state: AdamState, gradient: Array, learning_rate: float, adam: Adam
) -> AdamState:
    """One update of Algorithm 1, line by line."""
    step = state.step + 1
    first = adam.beta_1 * state.first_moment + (1 - adam.beta_1) * gradient
    second = adam.beta_2 * state.second_moment + (1 - adam.beta_2) * gradient**2
    corrected_first = first / (1 - adam.beta_1**step)
    corrected_second = second / (1 - adam.beta_2**step)
    change = (
        learning_rate * corrected_first / (np.sqrt(corrected_second) + adam.epsilon)
    )
    return AdamState(state.parameter - change, first, second, step)


def reordered(
    state: AdamState, gradient: Array, learning_rate: float, adam: Adam
) -> AdamState:
    """One update in the reordered form of section 2, which Keras computes."""
    step = state.step + 1
    step_size = learning_rate * np.sqrt(1 - adam.beta_2**step) / (1 - adam.beta_1**step)
    first = adam.beta_1 * state.first_moment + (1 - adam.beta_1) * gradient
    second = adam.beta_2 * state.second_moment + (1 - adam.beta_2) * gradient**2
    change = step_size * first / (np.sqrt(second) + adam.epsilon)
    return AdamState(state.parameter - change, first, second, step)


def trajectory(
    update: AdamUpdate,
    parameter: Array,
    gradients: Iterable[Array],
    learning_rates: Iterable[float],
    adam: Adam | None = None,
) -> list[Array]:
    """Parameter after each update; update k uses gradient k and rate k."""
    state, parameters = start(parameter), []
    for gradient, learning_rate in zip(gradients, learning_rates, strict=True):
        state = update(state, gradient, learning_rate, adam or Adam())
        parameters.append(state.parameter)
    return parameters
