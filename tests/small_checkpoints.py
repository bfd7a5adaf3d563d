"""Checkpoints of a model with two weights, and helpers that damage them."""

import errno
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.training.checkpoints import CheckpointState

STATE = CheckpointState(
    step=6,
    position={"epoch": 1, "position": 4},
    scores={"dev_loss": 2.1000000000000001, "best_dev_loss": float("inf")},
    fingerprints={"vocabulary": "ab12"},
)


FULL_DISKS = (
    OSError(errno.ENOSPC, "No space left on device"),
    tf.errors.ResourceExhaustedError(None, None, "No space left on device"),
)


class TwoLayers(keras.Model):
    """Model with two weights of different shapes, three if `extra`."""

    def __init__(self, width: int = 3, extra: bool = False):
        super().__init__(name="toy")
        names = ["first", "second", *(["third"] if extra else [])]
        for index, name in enumerate(names):
            weight = self.add_weight(
                name=name,
                shape=(width, index + 2),
                initializer=keras.initializers.RandomNormal(),
            )
            setattr(self, name, weight)
        self.built = True


def train_small_model(
    steps: int, seed: int = 1, **sizes
) -> tuple[TwoLayers, keras.Optimizer]:
    """Returns a model and its optimizer after `steps` updates by random gradients."""
    keras.utils.set_random_seed(seed)
    model = TwoLayers(**sizes)
    optimizer = keras.optimizers.Adam(0.1, name="adam")
    optimizer.build(model.trainable_variables)
    for _ in range(steps):
        gradients = [keras.random.normal(v.shape) for v in model.trainable_variables]
        optimizer.apply(gradients, model.trainable_variables)
    return model, optimizer


def arrays(*owners) -> list[np.ndarray]:
    """Returns the values of all variables of models and optimizers."""
    variables = []
    for owner in owners:
        is_model = isinstance(owner, keras.Model)
        variables += owner.weights if is_model else owner.variables
    return [variable.value.numpy() for variable in variables]


def save_checkpoints(directory: Path, *steps: int) -> CheckpointStore:
    """Returns a store with a checkpoint at each of `steps`, all weights different."""
    for step in steps:
        store = CheckpointStore(directory, *train_small_model(1, seed=step))
        store.save(CheckpointState(step=step, position={"epoch": 0, "position": step}))
    return CheckpointStore(directory, *train_small_model(0, seed=2))


def assert_equal(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


def truncate(path: Path) -> None:
    """Cuts the last bytes off the weights of the checkpoint at `path`."""
    data = path / "weights.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-7])


def fail_at(monkeypatch, owner, name: str, error: BaseException) -> None:
    """Replaces the function `name` of `owner` by one that raises `error`."""

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(owner, name, fail)
