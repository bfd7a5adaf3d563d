"""How large weights are: one number for the log, one a weight where it matters."""

from collections.abc import Sequence

import keras
import tensorflow as tf


def weight_norm(weights: Sequence[keras.Variable]) -> float:
    """Returns the Euclidean norm of all weights together."""
    return float(tf.linalg.global_norm([weight.value for weight in weights]))


def norms_by_name(weights: Sequence[keras.Variable]) -> dict[str, float]:
    """Returns the Euclidean norm of each weight, by its path."""
    return {weight.path: float(tf.norm(weight.value)) for weight in weights}
