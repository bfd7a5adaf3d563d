"""Checkpoints of weights, optimizer state and data position: what is on disk.

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
    remove_leftovers,
    write_error,
)
from t2t_keras.files.paths import check_readable_by_tensorflow

_NAME = re.compile(r"step-(\d+)")
NAMES = "step-*"
_STATE = "state.json"
WEIGHTS = "weights"
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


def weight_name(weight: keras.Variable) -> str:
    """Returns the name of a model's weight for users: its path without the model.

    Such as "encoder/layer_0/attention/query_kernel". Names are stable: `--freeze` and
    `--init_skip` match them.
    """
    return weight.path.partition("/")[2]


def checkpoint_path(directory: str | os.PathLike[str], step: int) -> Path:
    """Returns the path of a step's checkpoint, which need not exist."""
    return Path(directory) / f"step-{step}"


def keep_only(directory: str | os.PathLike[str], steps: Sequence[int]) -> list[int]:
    """Deletes all checkpoints but those of some steps; returns the steps deleted."""
    deleted = [step for step in steps_in(Path(directory)) if step not in steps]
    for step in deleted:
        delete(checkpoint_path(directory, step))
    return deleted


def prune(directory: str | os.PathLike[str], keep: int) -> list[int]:
    """Deletes all but the newest `keep` checkpoints, none if 0; returns their steps."""
    return keep_only(directory, steps_in(Path(directory))[-keep:])


def steps_in(directory: Path) -> list[int]:
    """Returns the steps of all checkpoints in a directory, ascending."""
    if not directory.is_dir():
        return []
    matches = [_NAME.fullmatch(path.name) for path in directory.iterdir()]
    return sorted(int(match[1]) for match in matches if match)


def read_state(path: str | os.PathLike[str]) -> CheckpointState:
    """Returns the state stored in a checkpoint directory.

    Raises:
        UserError: If there is no checkpoint, or it cannot be read.
    """
    return _state_of(_read_card(Path(path)))


def _state_of(card: Mapping[str, Any]) -> CheckpointState:
    fields = card["state"]
    return CheckpointState(**{**fields, "averaged": tuple(fields["averaged"])})


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
    write_checkpoint(Path(target), tf.train.Checkpoint(**variables), state)


class StoredCheckpoint:
    """A checkpoint on disk. Its files are hashed once: when it is opened.

    Attributes:
        path: Its directory.
        state: Its state.
        shapes: Shape of each value, by "model/NAME", "optimizer/NAME" or "ema/NAME".

    Args:
        path: The directory.

    Raises:
        UserError: If there is no checkpoint, or it is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        card = _read_card(self.path)
        self.state = _state_of(card)
        for name, digest in card["files"].items():
            if not (self.path / name).is_file():
                raise UserError(f"The checkpoint {path} is damaged: {name} is missing.")
            if file_sha256(self.path / name) != digest:
                raise UserError(
                    f"The checkpoint {path} is damaged: {name} has changed since it "
                    "was written (truncated, or a fault of the disk). Use another one."
                )
        self._reader: Any = tf.train.load_checkpoint(str(self.path / WEIGHTS))
        self.shapes: dict[str, tuple[int, ...]] = {
            key.removesuffix(_SUFFIX): tuple(shape)
            for key, shape in self._reader.get_variable_to_shape_map().items()
            if key.endswith(_SUFFIX)
        }

    def value(self, name: str) -> np.ndarray:
        """Returns a value by its name in `shapes`."""
        return self._reader.get_tensor(name + _SUFFIX)

    @property
    def has_averages(self) -> bool:
        """Whether there are moving averages of the weights (EMA)."""
        return any(name.startswith("ema/") for name in self.shapes)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the model's weights by their `stored_name`."""
        return {
            name.removeprefix("model/"): shape
            for name, shape in self.shapes.items()
            if name.startswith("model/")
        }

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the model's weights by their `stored_name`.

        These are their moving averages (EMA), if there are any.
        """
        return {**self._part("model"), **self._part("ema")}

    def optimizer_state(self) -> dict[str, np.ndarray]:
        """Returns the optimizer's variables by their `stored_name`; none without."""
        return self._part("optimizer")

    def _part(self, part: str) -> dict[str, np.ndarray]:
        return {
            name.removeprefix(f"{part}/"): self.value(name)
            for name in self.shapes
            if name.startswith(f"{part}/")
        }


def checkpoint_digest(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 that identifies a checkpoint: of its state and its files.

    Raises:
        UserError: If there is no checkpoint, or it cannot be read.
    """
    return _card_digest(_read_card(Path(path)))


def write_checkpoint(
    target: Path, checkpoint: tf.train.Checkpoint, state: CheckpointState
) -> None:
    """Writes a checkpoint's directory atomically.

    Raises:
        OSError: If it could not be written. No partial folder remains.
    """
    remove_leftovers(target.parent, NAMES)
    try:
        with atomic_folder(target) as directory:
            checkpoint.write(str(directory / WEIGHTS))
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
