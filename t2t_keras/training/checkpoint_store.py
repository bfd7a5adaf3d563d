"""The checkpoints of one run: saved, restored and deleted, with its model."""

import os
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import move_folder, remove_leftovers
from t2t_keras.training.checkpoints import (
    NAMES,
    WEIGHTS,
    CheckpointState,
    StoredCheckpoint,
    checkpoint_path,
    keep_only,
    prune,
    steps_in,
    stored_name,
    write_checkpoint,
)
from t2t_keras.training.weight_averages import WeightAverages


def named_weights(weights: Sequence[keras.Variable]) -> dict[str, tf.Variable]:
    """Returns the raw variables by their paths, with "-" for "/".

    Raises:
        ValueError: If two variables share a path.
    """
    named = {stored_name(weight): weight.value for weight in weights}
    if len(named) != len(weights):
        raise ValueError(
            "Every weight must have a path of its own. Received: "
            f"{sorted(weight.path for weight in weights)}"
        )
    return named


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        directory: Folder of the `step-N` folders; created with the first.
        model: Built; its weights are saved and restored.
        optimizer: Built; None to ignore its state, as for translation. The weights are
            then restored from their moving averages, if the checkpoint has them.
        averages: Moving averages of the weights (EMA), saved and restored with the
            optimizer; None for a run without them.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        model: keras.Model,
        optimizer: keras.Optimizer | None = None,
        averages: WeightAverages | None = None,
    ):
        self.directory = Path(directory)
        self._weights = named_weights(model.weights)
        self._for_training = optimizer is not None
        parts = {"model": self._weights}
        if optimizer is not None:
            parts["optimizer"] = named_weights(optimizer.variables)
        if averages is not None:
            weights, variables = zip(*averages.by_weight, strict=True)
            values = [variable.value for variable in variables]
            parts["ema"] = dict(zip(named_weights(weights), values, strict=True))
        self._checkpoint = tf.train.Checkpoint(
            **{part: tf.train.Checkpoint(**named) for part, named in parts.items()}
        )
        self._shapes = {
            f"{part}/{name}": tuple(variable.shape)
            for part, named in parts.items()
            for name, variable in named.items()
        }

    def path(self, step: int) -> Path:
        """Returns the path of a step's checkpoint, which need not exist."""
        return checkpoint_path(self.directory, step)

    def save(self, state: CheckpointState) -> Path:
        """Writes a checkpoint and returns its directory.

        Raises:
            OSError: For example if the disk is full. No partial folder remains.
        """
        final = self.path(state.step)
        write_checkpoint(final, self._checkpoint, state)
        return final

    def restore(self, path: str | os.PathLike[str]) -> CheckpointState:
        """Loads a checkpoint into model and optimizer, and returns its state.

        Raises:
            UserError: If it is damaged, or belongs to another model.
        """
        stored = StoredCheckpoint(path)
        self._check_fit(stored)
        status = self._checkpoint.read(str(stored.path / WEIGHTS))
        status.assert_existing_objects_matched()
        if not self._for_training:
            status.expect_partial()  # or TensorFlow warns of each value left out
            for name, variable in self._weights.items():
                if f"ema/{name}" in stored.shapes:
                    variable.assign(stored.value(f"ema/{name}"))
        return stored.state

    def _check_fit(self, stored: StoredCheckpoint) -> None:
        """Raises `UserError` if names or shapes differ from those of the model."""
        shapes = stored.shapes
        if not self._for_training:
            shapes = {n: s for n, s in shapes.items() if n.startswith("model/")}
        for name in sorted({*shapes, *self._shapes}):
            there, here = shapes.get(name), self._shapes.get(name)
            if there != here:
                raise UserError(
                    f"The checkpoint {stored.path} does not fit this model: {name} has "
                    f"the shape {there} there and {here} here. Use the settings it was "
                    "trained with, which are in its model_dir."
                )

    def tidy(self) -> None:
        """Deletes partial folders that a killed run left.

        Only for the process that writes: it also deletes folders in progress.
        """
        remove_leftovers(self.directory, NAMES)

    def restore_newest(
        self, last_saved: int = 0
    ) -> tuple[CheckpointState | None, list[str]]:
        """Loads the newest intact checkpoint.

        Newer ones that are damaged are renamed to `damaged-step-N`: under their own
        names, they would count as the newest for pruning and averaging.

        Args:
            last_saved: The step that was saved last, 0 if unknown.

        Returns:
            Its state, None if there is no checkpoint, and a warning for each
            newer one that is damaged or missing.

        Raises:
            UserError: If there are checkpoints and all of them are damaged. They
                are not changed.
        """
        self.tidy()
        missing = self._missing_warnings(last_saved)
        warnings: list[str] = []
        damaged: list[Path] = []
        for step in reversed(steps_in(self.directory)):
            try:
                state = self.restore(self.path(step))
            except UserError as error:
                warnings.append(str(error))
                damaged.append(self.path(step))
            else:
                for path in damaged:
                    move_folder(path, self._damaged_path(path))
                return state, missing + warnings
        if warnings:
            raise UserError(
                f"None of the {len(warnings)} checkpoints in {self.directory} can be "
                "used:\n  " + "\n  ".join(warnings)
            )
        return None, missing

    def _damaged_path(self, path: Path) -> Path:
        return path.with_name(f"damaged-{path.name}")

    def _missing_warnings(self, last_saved: int) -> list[str]:
        """Returns a warning if the checkpoint that was saved last is missing."""
        path = self.path(last_saved)
        newest = max(steps_in(self.directory), default=0)
        if newest >= last_saved or self._damaged_path(path).exists():
            return []
        return [
            f"The latest checkpoint, {path}, is missing. Training repeats the steps "
            f"after step {newest:,}."
        ]

    def prune(self, keep: int) -> list[int]:
        """Deletes all but the newest `keep` checkpoints; see the function `prune`."""
        return prune(self.directory, keep)

    def keep_only(self, steps: Sequence[int]) -> list[int]:
        """Deletes all checkpoints but those of some steps; see `keep_only`."""
        return keep_only(self.directory, steps)
