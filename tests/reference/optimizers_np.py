"""AdamW, schedule-free AdamW and Muon in float64 NumPy, from their papers.

Each function returns the weights after every update; update k uses gradient k and rate
k. Weight decay is decoupled: it is no part of the gradient.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.reference import adam_np

Array = NDArray[np.float64]
Arrays = Sequence[Array]
Rates = Sequence[float]

# Polynomial of the Newton-Schulz iteration, from Muon's description.
QUINTIC = (3.4445, -4.7750, 2.0315)


def adamw(weight: Array, gradients: Arrays, rates: Rates, decay: float) -> list[Array]:
    """Algorithm 2 of Loshchilov & Hutter 2019 (arXiv 1711.05101), with alpha = 1."""
    adam, state, weights = adam_np.Adam(), adam_np.start(weight), []
    for gradient, rate in zip(gradients, rates, strict=True):
        old = state.parameter
        state = adam_np.reordered(state, gradient, rate, adam)
        state = adam_np.AdamState(
            state.parameter - rate * decay * old,
            state.first_moment,
            state.second_moment,
            state.step,
        )
        weights.append(state.parameter)
    return weights


def schedule_free(
    weight: Array, gradients: Arrays, rates: Rates, decay: float
) -> list[tuple[Array, Array]]:
    """Schedule-free AdamW of Defazio et al. 2024 (arXiv 2405.15682), as (y, x).

    x is the plain mean of all z, as in the paper's equations and in Keras. Algorithm 1
    weights them by their squared rates.
    """
    beta_1, beta_2, epsilon = 0.9, 0.98, 1e-9
    x = y = z = weight
    v, points = np.zeros_like(weight), []
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        v = beta_2 * v + (1 - beta_2) * gradient**2
        corrected = v / (1 - beta_2**t)
        z = z - rate * (gradient / (np.sqrt(corrected) + epsilon) + decay * y)
        x = (1 - 1 / t) * x + z / t
        y = (1 - beta_1) * z + beta_1 * x
        points.append((y, x))
    return points


def muon(weight: Array, gradients: Arrays, rates: Rates, decay: float) -> list[Array]:
    """Muon on a matrix, by its singular values instead of products of matrices.

    Jordan et al. 2024, with Nesterov's momentum of 0.95 and five iterations; the size
    of updates as in Liu et al. 2025 (arXiv 2502.16982), equation 4.
    """
    a, b, c = QUINTIC
    momentum, weights = np.zeros_like(weight), []
    for gradient, rate in zip(gradients, rates, strict=True):
        momentum = 0.95 * momentum + gradient
        left, singular, right = np.linalg.svd(
            gradient + 0.95 * momentum, full_matrices=False
        )
        singular = singular / np.linalg.norm(singular)
        for _ in range(5):
            singular = a * singular + b * singular**3 + c * singular**5
        direction = (left * singular) @ right
        size = 0.2 * np.sqrt(max(weight.shape))
        weight = weight - rate * (size * direction + decay * weight)
        weights.append(weight)
    return weights
