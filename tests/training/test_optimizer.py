"""Trajectory of Adam against float64 NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.optimizer import paper_adam
from t2t_keras.training.schedule import WarmupInverseSquareRoot
from tests.reference import adam_np
from tests.reference.transformer_np import learning_rate

STEPS, D_MODEL, WARMUP = 12, 64, 5


def gradients() -> list[np.ndarray]:
    """Gradients of all sizes; the last show where epsilon is added."""
    rng = np.random.default_rng(11)
    sizes = 10.0 ** np.array([2, 0, -3, -6, -8, -9, -10])
    return [rng.normal(size=7) * sizes for _ in range(STEPS)]


def rates(first: int = 1) -> list[float]:
    steps = range(first, first + STEPS)
    return [learning_rate(step, D_MODEL, WARMUP) for step in steps]


def start() -> np.ndarray:
    return np.linspace(-0.03, 0.03, 7)


def keras_trajectory(left_out: frozenset[int] = frozenset()) -> np.ndarray:
    # Weights near zero, so that float32 keeps the digits of the updates.
    variable = keras.Variable(start(), dtype="float32")
    optimizer = paper_adam(WarmupInverseSquareRoot(D_MODEL, WARMUP))
    optimizer.build([variable])
    trajectory = []
    for i, gradient in enumerate(gradients()):
        # Varies, because Adam's update does not depend on a constant divisor.
        divisor = 1.0 + i % 3
        optimizer.apply_summed(
            [keras.ops.cast(gradient * divisor, "float32")],
            tf.constant(divisor),
            finite=tf.constant(i not in left_out),
            counts=tf.constant(True),
        )
        trajectory.append(np.asarray(variable.value))
    return np.array(trajectory)


def distance(trajectory: np.ndarray, other: list[np.ndarray]) -> float:
    return float(np.abs(trajectory - np.array(other)).max())


@pytest.fixture(scope="module")
def trajectory() -> np.ndarray:
    return keras_trajectory()


def test_it_is_the_papers_adam_on_the_papers_schedule(trajectory) -> None:
    expected = adam_np.trajectory(adam_np.reordered, start(), gradients(), rates())
    assert distance(trajectory, expected) < 1e-6


def test_epsilon_is_added_before_the_bias_correction(trajectory) -> None:
    other = adam_np.trajectory(adam_np.algorithm_1, start(), gradients(), rates())
    assert distance(trajectory, other) > 1e-4


def test_bias_correction_counts_applied_updates_and_the_rate_counts_all() -> None:
    left_out = frozenset({1, 2, 5})
    applied = [i for i in range(STEPS) if i not in left_out]
    expected = adam_np.trajectory(
        adam_np.reordered,
        start(),
        [gradients()[i] for i in applied],
        [rates()[i] for i in applied],
    )
    assert distance(keras_trajectory(left_out)[applied], expected) < 1e-6


def test_keras_own_update_is_the_same_and_counts() -> None:
    """Other backends and `fit` make it; a checkpoint of them is resumed by `train`."""
    ours, own = (keras.Variable(start(), dtype="float32") for _ in range(2))
    optimizers = [paper_adam(WarmupInverseSquareRoot(D_MODEL, WARMUP)) for _ in "12"]
    for optimizer, variable in zip(optimizers, (ours, own), strict=True):
        optimizer.build([variable])
    for gradient in gradients():
        each = [keras.ops.cast(gradient, "float32")]
        yes = tf.constant(True)
        optimizers[0].apply_summed(each, tf.constant(1.0), finite=yes, counts=yes)
        optimizers[1].apply(each)
    assert np.abs(ours.numpy() - start()).max() > 1e-3
    np.testing.assert_allclose(own.numpy(), ours.numpy(), rtol=1e-5)
    for optimizer in optimizers:
        counts = int(optimizer.applied.value), int(optimizer.iterations.value)
        assert counts == (STEPS, STEPS)
