"""Checkpoint averaging (section 6.1)."""

import os
from collections.abc import Sequence

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints import (
    CheckpointState,
    StoredCheckpoint,
    write_arrays,
)


def average(
    paths: Sequence[str | os.PathLike[str]], target: str | os.PathLike[str]
) -> CheckpointState:
    """Writes the mean of several checkpoints' model weights (section 6.1).

    Checkpoint averaging: sums are float64. The result has no optimizer state and no
    position in the data: it can be evaluated and exported, but not trained further.

    Args:
        paths: Checkpoint directories of one model.
        target: Directory to write; replaced if it exists.

    Returns:
        The state written: the last step, and the steps that were averaged.

    Raises:
        UserError: If there is no checkpoint, one is damaged, or they belong to
            different models.
        OSError: If the target could not be written.
    """
    if not paths:
        raise UserError("There is no checkpoint to average.")
    states = []
    sums: dict[str, np.ndarray] = {}
    for index, path in enumerate(paths):
        stored = StoredCheckpoint(path)
        states.append(stored.state)
        weights = stored.weights()
        if index and {k: v.shape for k, v in weights.items()} != {
            k: v.shape for k, v in sums.items()
        }:
            raise UserError(
                f"{path} is of another model than {paths[0]}: their weights differ "
                "in name or shape. Average checkpoints of one run."
            )
        for name, value in weights.items():
            sums[name] = sums.get(name, 0.0) + value.astype("float64")
    means = {
        name: (total / len(paths)).astype("float32") for name, total in sums.items()
    }
    averaged = tuple(sorted(state.step for state in states))
    state = CheckpointState(
        step=averaged[-1],
        averaged=averaged,
        fingerprints=states[-1].fingerprints,
    )
    write_arrays(target, {"model": means}, state)
    return state
