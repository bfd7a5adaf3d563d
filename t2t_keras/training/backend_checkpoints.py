"""Checkpoints of a model on another backend of Keras than TensorFlow, such as JAX.

The files are those of `CheckpointStore`, so a run may change backends.
"""

import os
from collections.abc import Sequence

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints import (
    CheckpointState,
    read_optimizer_state,
    read_state,
    read_weights,
    stored_name,
    write_arrays,
)


def save_variables(
    target: str | os.PathLike[str],
    model: keras.Model,
    optimizer: keras.Optimizer,
    state: CheckpointState,
) -> None:
    """Writes a checkpoint of the variables' values.

    Args:
        target: Directory to write, `step-N`; replaced if it exists.
        model: Built.
        optimizer: Built.
        state: The rest of the checkpoint.

    Raises:
        OSError: If it could not be written. No partial folder remains.
    """
    parts = {"model": model.variables, "optimizer": optimizer.variables}
    arrays = {
        part: {stored_name(each): _as_on_tensorflow(each) for each in variables}
        for part, variables in parts.items()
    }
    write_arrays(target, arrays, state)


def load_variables(
    path: str | os.PathLike[str], model: keras.Model, optimizer: keras.Optimizer
) -> CheckpointState:
    """Assigns the values of a checkpoint to the variables, and returns its state.

    Args:
        path: Directory of the checkpoint.
        model: Built.
        optimizer: Built.

    Raises:
        UserError: If it is damaged, or lacks a variable or has it in another shape.
    """
    stored = {**read_weights(path), **read_optimizer_state(path)}
    variables: Sequence[keras.Variable] = [*model.variables, *optimizer.variables]
    for variable in variables:
        value = stored.get(stored_name(variable))
        there, here = None if value is None else value.shape, tuple(variable.shape)
        if there != here:
            raise UserError(
                f"The checkpoint {path} does not fit this model: "
                f"{stored_name(variable)} has the shape {there} there and {here} here. "
                "Use a checkpoint of training, and the settings of its run."
            )
    for variable in variables:
        variable.assign(stored[stored_name(variable)])
    return read_state(path)


def _as_on_tensorflow(variable: keras.Variable) -> np.ndarray:
    """Returns the value; counts in 64 bits, where other backends have 32."""
    array = keras.ops.convert_to_numpy(variable)
    return array.astype("int64") if array.dtype.kind == "i" else array
