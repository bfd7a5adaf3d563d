"""How large weights are: one number for the log, one a weight where it matters."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf


def weight_norm(weights: Sequence[keras.Variable]) -> float:
    """Returns the Euclidean norm of all weights together."""
    return float(tf.linalg.global_norm([weight.value for weight in weights]))


def norms_by_name(weights: Sequence[keras.Variable]) -> dict[str, float]:
    """Returns the Euclidean norm of each weight, by its path.

    In float64: where these are wanted, weights may be so large that their squares
    are no float32 any more.
    """
    return {
        weight.path: float(np.linalg.norm(np.asarray(weight.value, "float64")))
        for weight in weights
    }
