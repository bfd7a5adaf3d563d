"""Assignment of an imported model's weights to a model of ours."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.interop.imported_model import ImportedModel, ReorderedRows
from t2t_keras.model.transformer import Transformer
from t2t_keras.training.checkpoints import weight_name

_PART_BYTES = 2**23


def load_weights(imported: ImportedModel, model: Transformer) -> None:
    """Assigns the weights of the source to a model with its settings and vocabulary.

    Each weight is read, assigned in parts and forgotten, so that at most one is in
    memory twice.

    Raises:
        UserError: If a weight is damaged, or of another shape than the settings say.
    """
    own = {weight_name(weight): weight for weight in model.weights}
    if unknown := imported.weights.keys() - own.keys():
        raise ValueError(f"The reader has weights of no place: {sorted(unknown)}")
    for name, weight in own.items():
        if name not in imported.weights:
            raise ValueError(f"The reader has no weight {name}")
        value = imported.weights[name]()
        if value.shape != tuple(weight.shape):
            raise UserError(
                f"The source's weight for {name} has the shape {value.shape}, and its "
                f"settings say {tuple(weight.shape)}. Its files do not belong together."
            )
        _assign(weight, value)


def _assign(weight: Any, value: np.ndarray | ReorderedRows) -> None:
    """Assigns a value in parts, each of which TensorFlow copies twice."""
    rows = max(1, _PART_BYTES // (4 * math.prod(value.shape[1:])))
    for start in range(0, value.shape[0], rows):
        # `value[a:b].assign` would copy the whole variable: it reads it before.
        tf.raw_ops.ResourceStridedSliceAssign(
            ref=weight.value.handle,
            begin=[start],
            end=[start + rows],
            strides=[1],
            value=value[start : start + rows],
        )
