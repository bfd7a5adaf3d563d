"""Checkpoints of weights, optimizer state and data position; checkpoint averaging.

A checkpoint is one directory, `step-N`, with TensorFlow's own checkpoint files and
`state.json`. It is written atomically: a folder of that name is complete, even if
the process or the machine is killed.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import (
    atomic_folder,
    delete,
    file_sha256,
    move_folder,
    remove_leftovers,
    write_error,
)
from t2t_keras.files.paths import check_readable_by_tensorflow
from t2t_keras.training.optimizer import WeightAverages

_NAME = re.compile(r"step-(\d+)")
_NAMES = "step-*"
_STATE = "state.json"
_WEIGHTS = "weights"
# Suffix that TensorFlow appends to names.
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


@dataclasses.dataclass(frozen=True)
class CheckpointState:
    """State of a run that a checkpoint holds besides the weights.

    Attributes:
        step: Number of updates so far.
        position: Position of the next batch in the data, as the input pipeline
            defines it; None if training cannot resume from here.
        averaged: Steps of the checkpoints that this is the mean of; empty if it is
            not an average.
        scores: Scores on the dev set at this step, by name.
        cost: Cost of training up to this step: "seconds" and "flops".
        unlogged: Fields of `MeterSums` since the last log record; empty in
            checkpoints that are older than this field.
        fingerprints: Digests of the data that the weights belong to, by name.
    """

    step: int
    position: Mapping[str, int] | None = None
    averaged: Sequence[int] = ()
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    cost: Mapping[str, float] = dataclasses.field(default_factory=dict)
    unlogged: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)


def stored_name(variable: keras.Variable) -> str:
    """Returns the name of a variable in a checkpoint: its path, with "-" for "/"."""
    return variable.path.replace("/", "-")


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


def weight_name(weight: keras.Variable) -> str:
    """Returns the name of a model's weight for users: its path without the model.

    Such as "encoder/layer_0/attention/query_kernel". Names are stable: `--freeze` and
    `--init_skip` match them.
    """
    return weight.path.partition("/")[2]


def steps_in(directory: Path) -> list[int]:
    """Returns the steps of all checkpoints in a directory, ascending."""
    if not directory.is_dir():
        return []
    matches = [_NAME.fullmatch(path.name) for path in directory.iterdir()]
    return sorted(int(match[1]) for match in matches if match)


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

    def steps(self) -> list[int]:
        """Returns the steps of all checkpoints, ascending."""
        return steps_in(self.directory)

    def path(self, step: int) -> Path:
        """Returns the path of a step's checkpoint, which need not exist."""
        return self.directory / f"step-{step}"

    def save(self, state: CheckpointState) -> Path:
        """Writes a checkpoint and returns its directory.

        Raises:
            OSError: For example if the disk is full. No partial folder remains.
        """
        final = self.path(state.step)
        _write_directory(final, self._checkpoint, state)
        return final

    def restore(self, path: str | os.PathLike[str]) -> CheckpointState:
        """Loads a checkpoint into model and optimizer, and returns its state.

        Raises:
            UserError: If it is damaged, or belongs to another model.
        """
        path = Path(path)
        state = read_state(path)
        _check_files(path)
        reader = tf.train.load_checkpoint(str(path / _WEIGHTS))
        stored = _stored_shapes(reader)
        self._check_fit(path, stored)
        status = self._checkpoint.read(str(path / _WEIGHTS))
        status.assert_existing_objects_matched()
        if not self._for_training:
            status.expect_partial()  # or TensorFlow warns of each value left out
            for name, variable in self._weights.items():
                if f"ema/{name}" in stored:
                    variable.assign(reader.get_tensor(f"ema/{name}{_SUFFIX}"))
        return state

    def _check_fit(self, path: Path, stored: Mapping[str, tuple[int, ...]]) -> None:
        """Raises `UserError` if names or shapes differ from those of the model."""
        if not self._for_training:
            stored = {n: s for n, s in stored.items() if n.startswith("model/")}
        for name in sorted({*stored, *self._shapes}):
            there, here = stored.get(name), self._shapes.get(name)
            if there != here:
                raise UserError(
                    f"The checkpoint {path} does not fit this model: {name} has the "
                    f"shape {there} there and {here} here. Use the settings it was "
                    "trained with, which are in its model_dir."
                )

    def tidy(self) -> None:
        """Deletes partial folders that a killed run left.

        Only for the process that writes: it also deletes folders in progress.
        """
        remove_leftovers(self.directory, _NAMES)

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
        for step in reversed(self.steps()):
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
        newest = max(self.steps(), default=0)
        if newest >= last_saved or self._damaged_path(path).exists():
            return []
        return [
            f"The latest checkpoint, {path}, is missing. Training repeats the steps "
            f"after step {newest:,}."
        ]

    def prune(self, keep: int) -> list[int]:
        """Deletes all but the newest `keep` checkpoints, none if it is 0.

        Returns:
            The steps deleted.
        """
        return self.keep_only(self.steps()[-keep:])

    def keep_only(self, steps: Sequence[int]) -> list[int]:
        """Deletes all checkpoints but those of some steps.

        Returns:
            The steps deleted.
        """
        deleted = [step for step in self.steps() if step not in steps]
        for step in deleted:
            delete(self.path(step))
        return deleted


def read_state(path: str | os.PathLike[str]) -> CheckpointState:
    """Returns the state stored in a checkpoint directory.

    Raises:
        UserError: If there is no checkpoint, or it cannot be read.
    """
    fields = _read_card(Path(path))["state"]
    return CheckpointState(**{**fields, "averaged": tuple(fields["averaged"])})


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
    states = [read_state(path) for path in paths]
    sums: dict[str, np.ndarray] = {}
    for index, path in enumerate(paths):
        weights = read_weights(path)
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


def write_arrays(
    target: str | os.PathLike[str],
    parts: Mapping[str, Mapping[str, np.ndarray]],
    state: CheckpointState,
) -> None:
    """Writes a checkpoint of arrays.

    Args:
        target: Directory to write; replaced if it exists.
        parts: "model", and "optimizer" if training may resume from it: the value of
            each variable by its `stored_name`, in the dtype it has on TensorFlow.
        state: The rest of the checkpoint.

    Raises:
        OSError: If it could not be written. No partial folder remains.
    """
    variables = {
        part: tf.train.Checkpoint(
            **{name: tf.Variable(value) for name, value in values.items()}
        )
        for part, values in parts.items()
    }
    _write_directory(Path(target), tf.train.Checkpoint(**variables), state)


def read_weights(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Returns a checkpoint's model weights by name, without a model.

    These are the moving averages of the weights (EMA), if the checkpoint has them.

    Raises:
        UserError: If the checkpoint is damaged.
    """
    return {**_read_part(path, "model"), **_read_part(path, "ema")}


def read_weight_shapes(path: str | os.PathLike[str]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a checkpoint's model weights by name.

    Raises:
        UserError: If the checkpoint is damaged.
    """
    _check_files(Path(path))
    stored = _stored_shapes(tf.train.load_checkpoint(str(Path(path) / _WEIGHTS)))
    prefix = "model/"
    return {
        name.removeprefix(prefix): shape
        for name, shape in stored.items()
        if name.startswith(prefix)
    }


def has_averages(path: str | os.PathLike[str]) -> bool:
    """Returns whether a checkpoint has moving averages of the weights (EMA).

    Raises:
        UserError: If the checkpoint is damaged.
    """
    return bool(_read_part(path, "ema"))


def read_optimizer_state(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Returns a checkpoint's optimizer state by name; empty if it has none.

    Raises:
        UserError: If the checkpoint is damaged.
    """
    return _read_part(path, "optimizer")


def _read_part(path: str | os.PathLike[str], part: str) -> dict[str, np.ndarray]:
    _check_files(Path(path))
    reader = tf.train.load_checkpoint(str(Path(path) / _WEIGHTS))
    return {
        name.removeprefix(f"{part}/"): reader.get_tensor(name + _SUFFIX)
        for name in _stored_shapes(reader)
        if name.startswith(f"{part}/")
    }


def checkpoint_digest(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 that identifies a checkpoint: of its state and its files.

    Raises:
        UserError: If there is no checkpoint, or it cannot be read.
    """
    return _card_digest(_read_card(Path(path)))


def _stored_shapes(reader: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shapes in a checkpoint by "model/NAME", "optimizer/NAME", ..."""
    return {
        key.removesuffix(_SUFFIX): tuple(shape)
        for key, shape in reader.get_variable_to_shape_map().items()
        if key.endswith(_SUFFIX)
    }


def _write_directory(
    target: Path, checkpoint: tf.train.Checkpoint, state: CheckpointState
) -> None:
    """Writes a checkpoint's directory atomically.

    Raises:
        OSError: If it could not be written. No partial folder remains.
    """
    remove_leftovers(target.parent, _NAMES)
    try:
        with atomic_folder(target) as directory:
            checkpoint.write(str(directory / _WEIGHTS))
            _write_state(directory, state)
    except tf.errors.OpError as error:
        raise write_error(target, error.message) from error


def _write_state(directory: Path, state: CheckpointState) -> None:
    """Writes `state.json`, with a digest of each weights file beside it."""
    card: dict[str, Any] = {
        "state": dataclasses.asdict(state),
        "files": {path.name: file_sha256(path) for path in sorted(directory.iterdir())},
    }
    text = json.dumps({**card, "sha256": _card_digest(card)}, indent=1)
    (directory / _STATE).write_text(text + "\n")


def _read_card(path: Path) -> dict[str, Any]:
    """Returns `state.json`, checked against the digest it ends with."""
    check_readable_by_tensorflow(path, "The checkpoint")
    file = path / _STATE
    try:
        card = json.loads(file.read_text())
        is_intact = card.pop("sha256") == _card_digest(card)
    except FileNotFoundError:
        raise UserError(
            f"{path} is not a checkpoint: it has no {_STATE}. Expected a folder "
            "step-N below a model_dir's checkpoints, or an averaged one."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"The checkpoint {path} is damaged: {error}") from error
    if not is_intact:
        raise UserError(f"The checkpoint {path} is damaged: {_STATE} has changed.")
    return card


def _card_digest(card: Mapping[str, Any]) -> str:
    text = json.dumps(card, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_files(path: Path) -> None:
    """Raises `UserError` if a file is missing or was changed."""
    for name, digest in _read_card(path)["files"].items():
        if not (path / name).is_file():
            raise UserError(f"The checkpoint {path} is damaged: {name} is missing.")
        if file_sha256(path / name) != digest:
            raise UserError(
                f"The checkpoint {path} is damaged: {name} has changed since it was "
                "written (truncated, or a fault of the disk). Use another one."
            )
