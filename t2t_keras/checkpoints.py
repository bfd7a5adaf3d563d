"""Station 6: updated weights in, weights on disk out - and back.

A checkpoint is one directory, `step-N`, with TensorFlow's own checkpoint files and
`state.json`. It is written under another name and renamed when it is whole, so what
bears the name is complete, whatever kills the process.
"""

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError

_NAME = re.compile(r"step-(\d+)")
_STATE = "state.json"
_WEIGHTS = "weights"
# What TensorFlow appends to the names it is given.
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


@dataclasses.dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint knows besides its weights.

    Attributes:
        step: Updates made.
        position: Where in the data the next batch is, as the input pipeline keeps
            it; None where training cannot go on from here.
        averaged: Steps of the checkpoints that this is the mean of; empty if it is
            of one moment.
        scores: Results on the dev set at this step, by name.
        cost: What training up to this step took: "seconds" and "flops".
        fingerprints: Digests of what the weights belong to, by name.
    """

    step: int
    position: Mapping[str, int] | None = None
    averaged: Sequence[int] = ()
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    cost: Mapping[str, float] = dataclasses.field(default_factory=dict)
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)


def named_weights(weights: Sequence[keras.Variable]) -> dict[str, tf.Variable]:
    """Returns the raw variables by their paths, "/" written "-".

    Raises:
        ValueError: If two variables share a path.
    """
    named = {weight.path.replace("/", "-"): weight.value for weight in weights}
    if len(named) != len(weights):
        raise ValueError(
            "Every weight must have a path of its own. Received: "
            f"{sorted(weight.path for weight in weights)}"
        )
    return named


def steps_in(directory: Path) -> list[int]:
    """Returns the steps of all checkpoints in a directory, ascending."""
    if not directory.is_dir():
        return []
    found = [_NAME.fullmatch(path.name) for path in directory.iterdir()]
    return sorted(int(match[1]) for match in found if match)


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        directory: Where `step-N` folders lie; made when the first is saved.
        model: Built; its weights are saved and restored.
        optimizer: Built; None to leave its state alone, as for translation.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        model: keras.Model,
        optimizer: keras.Optimizer | None = None,
    ):
        self.directory = Path(directory)
        parts = {"model": named_weights(model.weights)}
        if optimizer is not None:
            parts["optimizer"] = named_weights(optimizer.variables)
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
        """Returns where the checkpoint of a step lies, or would."""
        return self.directory / f"step-{step}"

    def save(self, state: CheckpointState) -> Path:
        """Writes a checkpoint and returns its directory.

        Raises:
            OSError: If the disk is full, say. Nothing half-written stays behind.
        """
        final = self.path(state.step)
        _write_directory(final, self._checkpoint, state)
        return final

    def restore(self, path: str | os.PathLike[str]) -> CheckpointState:
        """Loads a checkpoint into model and optimizer, and returns its state.

        Raises:
            UserError: If it is damaged, or is of another model.
        """
        path = Path(path)
        state = read_state(path)
        _check_files(path)
        self._check_fit(path)
        self._checkpoint.read(str(path / _WEIGHTS)).assert_existing_objects_matched()
        return state

    def _check_fit(self, path: Path) -> None:
        """Raises `UserError` if names or shapes differ from those of the model."""
        stored = _stored_shapes(tf.train.load_checkpoint(str(path / _WEIGHTS)))
        if not any(name.startswith("optimizer/") for name in self._shapes):
            stored = {n: s for n, s in stored.items() if n.startswith("model/")}
        for name in sorted({*stored, *self._shapes}):
            there, here = stored.get(name), self._shapes.get(name)
            if there != here:
                raise UserError(
                    f"The checkpoint {path} does not fit this model: {name} has the "
                    f"shape {there} there and {here} here. Use the settings it was "
                    "trained with, which lie in its model_dir."
                )

    def restore_newest(self) -> tuple[CheckpointState | None, list[str]]:
        """Loads the newest checkpoint that is whole.

        Newer ones that are not are set aside as `damaged-step-N`: left in place,
        they would pass for the newest when checkpoints are pruned or averaged.

        Returns:
            Its state, None if there is no checkpoint, and a warning for each
            newer one that was passed over.

        Raises:
            UserError: If there are checkpoints and none of them is whole. They
                are left as they are.
        """
        _put_back(self.directory)
        warnings: list[str] = []
        passed_over: list[Path] = []
        for step in reversed(self.steps()):
            try:
                state = self.restore(self.path(step))
            except UserError as error:
                warnings.append(str(error))
                passed_over.append(self.path(step))
            else:
                for path in passed_over:
                    _set_aside(path)
                return state, warnings
        if warnings:
            raise UserError(
                f"None of the {len(warnings)} checkpoints in {self.directory} can be "
                "used:\n  " + "\n  ".join(warnings)
            )
        return None, warnings

    def prune(self, keep: int, always: Sequence[int] = ()) -> list[int]:
        """Deletes all but the newest `keep` checkpoints and those in `always`.

        Returns:
            The steps deleted.
        """
        steps = self.steps()
        spared = {*steps[-keep:], *always} if keep else set(steps)
        deleted = [step for step in steps if step not in spared]
        for step in deleted:
            _delete(self.path(step))
        return deleted


def read_state(path: str | os.PathLike[str]) -> CheckpointState:
    """Returns what a checkpoint directory says of itself.

    Raises:
        UserError: If there is none, or it cannot be read.
    """
    fields = _read_card(Path(path))["state"]
    return CheckpointState(**{**fields, "averaged": tuple(fields["averaged"])})


def average(
    paths: Sequence[str | os.PathLike[str]], target: str | os.PathLike[str]
) -> CheckpointState:
    """Writes the mean of several checkpoints' model weights (section 6.1).

    Sums run in float64. The result has no optimizer and no position in the data:
    it can be evaluated and exported, never trained on.

    Args:
        paths: Checkpoint directories of one model.
        target: Directory to write; replaced if there.

    Returns:
        The state written: the last step, and the steps that were averaged.

    Raises:
        UserError: If there is nothing to average, a checkpoint is damaged, or they
            are of different models.
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
        name: tf.Variable((total / len(paths)).astype("float32"))
        for name, total in sums.items()
    }
    checkpoint = tf.train.Checkpoint(model=tf.train.Checkpoint(**means))
    averaged = tuple(sorted(state.step for state in states))
    state = CheckpointState(
        step=averaged[-1],
        averaged=averaged,
        fingerprints=states[-1].fingerprints,
    )
    _write_directory(Path(target), checkpoint, state)
    return state


def read_weights(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Returns a checkpoint's model weights by name, without a model.

    Raises:
        UserError: If the checkpoint is damaged.
    """
    _check_files(Path(path))
    reader = tf.train.load_checkpoint(str(Path(path) / _WEIGHTS))
    return {
        name.removeprefix("model/"): reader.get_tensor(name + _SUFFIX)
        for name in _stored_shapes(reader)
        if name.startswith("model/")
    }


def _stored_shapes(reader: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shapes in a checkpoint by "model/NAME" and "optimizer/NAME"."""
    return {
        key.removesuffix(_SUFFIX): tuple(shape)
        for key, shape in reader.get_variable_to_shape_map().items()
        if key.endswith(_SUFFIX)
    }


def _write_directory(
    target: Path, checkpoint: tf.train.Checkpoint, state: CheckpointState
) -> None:
    """Writes a checkpoint's directory whole or not at all.

    One that has the name already is there until the new one is whole, and moved
    aside only for the moment between two renames. If the process is killed in that
    moment, `_put_back` gives it its name back.

    Raises:
        OSError: If it could not be written. Nothing half-written stays behind.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _put_back(target.parent)
    # What a killed run left half-written, or half-deleted.
    for stale in target.parent.glob(".step-*.tmp"):
        _remove(stale)
    temporary = target.parent / f".{target.name}.tmp"
    aside = target.parent / f".{target.name}.old"
    _remove(temporary)
    try:
        temporary.mkdir()
        checkpoint.write(str(temporary / _WEIGHTS))
        _write_state(temporary, state)
        if target.exists():
            target.rename(aside)
        temporary.rename(target)
    except tf.errors.OpError as error:
        raise OSError(f"{target} could not be written: {error.message}") from error
    finally:
        _put_back(target.parent)
        _remove(temporary)


def _put_back(directory: Path) -> None:
    """Gives checkpoints that were moved aside their names, if no others have them."""
    for aside in directory.glob(".step-*.old"):
        target = directory / aside.name.removeprefix(".").removesuffix(".old")
        if target.exists():
            _remove(aside)
        else:
            aside.rename(target)


def _delete(path: Path) -> None:
    """Deletes a checkpoint, which loses its name before it loses its files.

    A process killed in between leaves nothing that passes for a checkpoint.
    """
    dying = path.parent / f".{path.name}.tmp"
    _remove(dying)
    path.rename(dying)
    _remove(dying)


def _set_aside(path: Path) -> None:
    aside = path.with_name(f"damaged-{path.name}")
    _remove(aside)
    path.rename(aside)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _write_state(directory: Path, state: CheckpointState) -> None:
    """Writes `state.json`, with a digest of each weights file beside it."""
    card: dict[str, Any] = {
        "state": dataclasses.asdict(state),
        "files": {path.name: _digest(path) for path in sorted(directory.iterdir())},
    }
    text = json.dumps({**card, "sha256": _digest_of_card(card)}, indent=1)
    with open(directory / _STATE, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read_card(path: Path) -> dict[str, Any]:
    """Returns `state.json`, checked against the digest it ends with."""
    file = path / _STATE
    try:
        card = json.loads(file.read_text())
        whole = card.pop("sha256") == _digest_of_card(card)
    except FileNotFoundError:
        raise UserError(
            f"{path} is not a checkpoint: it has no {_STATE}. Expected a folder "
            "step-N below a model_dir's checkpoints, or an averaged one."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"The checkpoint {path} is damaged: {error}") from error
    if not whole:
        raise UserError(f"The checkpoint {path} is damaged: {_STATE} has changed.")
    return card


def _digest_of_card(card: Mapping[str, Any]) -> str:
    text = json.dumps(card, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_files(path: Path) -> None:
    """Raises `UserError` if a file is missing or not as it was written."""
    for name, digest in _read_card(path)["files"].items():
        if not (path / name).is_file():
            raise UserError(f"The checkpoint {path} is damaged: {name} is missing.")
        if _digest(path / name) != digest:
            raise UserError(
                f"The checkpoint {path} is damaged: {name} has changed since it was "
                "written (truncated, or a fault of the disk). Use another one."
            )


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
