"""Lengths of axes that may be unknown when a graph is traced."""

import tensorflow as tf

from t2t_keras.typing import Tensor


def size_of(tensor: Tensor, axis: int) -> int | Tensor:
    """Returns the length of an axis, as an int where it is known."""
    size = tensor.shape[axis]
    return tf.shape(tensor)[axis] if size is None else size
