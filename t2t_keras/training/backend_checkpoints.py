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
    StoredCheckpoint,
    checkpoint_path,
    prune,
    stored_name,
    write_arrays,
)


def save_variables(
    directory: str | os.PathLike[str],
    model: keras.Model,
    optimizer: keras.Optimizer,
    state: CheckpointState,
    keep: int = 0,
) -> None:
    """Writes a checkpoint of the variables' values, and deletes the oldest others.

    Args:
        directory: Folder of the `step-N` folders.
        model: Built.
        optimizer: Built.
        state: The rest of the checkpoint.
        keep: Number of newest checkpoints to keep; 0 for all.

    Raises:
        OSError: If it could not be written. No partial folder remains.
    """
    parts = {"model": model.variables, "optimizer": optimizer.variables}
    arrays = {
        part: {stored_name(each): _as_on_tensorflow(each) for each in variables}
        for part, variables in parts.items()
    }
    write_arrays(checkpoint_path(directory, state.step), arrays, state)
    prune(directory, keep)


def load_variables(
    path: str | os.PathLike[str], model: keras.Model, optimizer: keras.Optimizer
) -> CheckpointState:
    """Assigns the values of a checkpoint to the variables, and returns its state.

    Args:
        path: Directory of the checkpoint.
        model: Built.
        optimizer: Built.

    Raises:
        UserError: If it is damaged, lacks a variable or has it in another shape, or has
            moving averages of the weights.
    """
    checkpoint = StoredCheckpoint(path)
    if checkpoint.has_averages:
        raise UserError(
            f"The checkpoint {path} has moving averages of the weights, which are not "
            "updated here. Expected: a checkpoint of a run without --ema_decay and "
            "--optimizer=schedule_free_adamw. Resume "
            "this run with t2t_keras.train, or start another from it with --init_from."
        )
    stored = {**checkpoint.weights(), **checkpoint.optimizer_state()}
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
    return checkpoint.state


def _as_on_tensorflow(variable: keras.Variable) -> np.ndarray:
    """Returns the value; counts in 64 bits, where other backends have 32."""
    array = keras.ops.convert_to_numpy(variable)
    return array.astype("int64") if array.dtype.kind == "i" else array
