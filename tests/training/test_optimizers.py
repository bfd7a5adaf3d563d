"""AdamW, schedule-free AdamW and Muon against float64 NumPy; see test_optimizer.py."""

from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.optimizer import OPTIMIZERS
from t2t_keras.training.schedule import WarmupInverseSquareRoot
from t2t_keras.training.weight_averages import ScheduleFreeAverages
from tests.devices import cpu_strategy
from tests.reference import optimizers_np
from tests.reference.transformer_np import learning_rate

STEPS, D_MODEL, WARMUP, DECAY = 9, 64, 3, 0.3
SHAPES = {
    "embedding/rows": (7, 4),
    "positions/table": (4, 3),
    "wide": (3, 5),
    "tall": (6, 2),
    "gain": (5,),
}
LEFT_OUT = frozenset({0, 4})  # a first update that overflows is the usual one


class Trajectory(NamedTuple):
    """Values of the variables after each applied update, by name."""

    weights: dict[str, np.ndarray]
    averages: dict[str, np.ndarray]


def start(name: str) -> np.ndarray:
    rng = np.random.default_rng(len(name))
    return rng.normal(size=SHAPES[name])


def gradients(name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(100 + len(name))
    return [rng.normal(size=SHAPES[name]) * 10.0**-i for i in range(STEPS)]


def applied(name: str) -> tuple[list[np.ndarray], list[float]]:
    """Gradients and rates of the updates that are not left out."""
    kept = [i for i in range(STEPS) if i not in LEFT_OUT]
    rates = [learning_rate(i + 1, D_MODEL, WARMUP) for i in kept]
    return [gradients(name)[i] for i in kept], rates


def run(optimizer_name: str, *, devices: int = 1, jit_compile: bool = False):
    """Makes all updates, with divisors that vary, and NaN in those left out."""
    strategy = cpu_strategy(devices)
    with strategy.scope():
        variables = [
            keras.Variable(start(name), dtype="float32", name=name.replace("/", "_"))
            for name in SHAPES
        ]
        optimizer = OPTIMIZERS[optimizer_name](
            WarmupInverseSquareRoot(D_MODEL, WARMUP),
            weight_decay=DECAY,
            jit_compile=jit_compile,
        )
        optimizer.build(variables)
        averages = None
        if optimizer_name == "schedule_free_adamw":
            averages = ScheduleFreeAverages(optimizer)
            averages.reset()

    @tf.function(autograph=False)
    def update(values, divisor, finite):
        def on_replica():
            applies = optimizer.apply_summed(
                values, divisor, finite=finite, counts=tf.constant(True)
            )
            if averages is not None:
                averages.update(optimizer.applied.value, applies)

        strategy.run(on_replica)

    found = []
    for i in range(STEPS):
        divisor = 1.0 + i % 3
        before = [v.numpy() for v in (*variables, *optimizer.variables)]
        values = [
            tf.constant(gradients(name)[i] * (divisor if i not in LEFT_OUT else np.nan))
            for name in SHAPES
        ]
        update(
            [tf.cast(value, tf.float32) for value in values],
            tf.constant(divisor),
            tf.constant(i not in LEFT_OUT),
        )
        if i in LEFT_OUT:
            for variable, old in zip(
                (*variables, *optimizer.variables), before, strict=True
            ):
                if variable is not optimizer.iterations:
                    np.testing.assert_array_equal(variable.numpy(), old)
            continue
        means = averages.averages if averages else ()
        found.append([[v.numpy() for v in part] for part in (variables, means)])
    assert optimizer.applied.numpy() == STEPS - len(LEFT_OUT)
    assert optimizer.iterations.numpy() == STEPS
    parts = [
        dict(zip(SHAPES, map(np.array, zip(*part, strict=True)), strict=False))
        for part in zip(*found, strict=True)
    ]
    return Trajectory(*parts)


def assert_close(found: np.ndarray, expected: list[np.ndarray]) -> None:
    np.testing.assert_allclose(found, np.array(expected), rtol=0, atol=2e-5)
    assert np.abs(found[-1] - found[0]).max() > 0.01


EVERYWHERE = pytest.mark.parametrize(
    ("devices", "jit_compile"), [(1, False), (2, True)]
)


def decay_of(name: str) -> float:
    return 0.0 if name == "gain" else DECAY


@EVERYWHERE
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_adamw_and_muon(optimizer, devices, jit_compile) -> None:
    """Muon is for matrices; embeddings, positions and vectors have Adam."""
    found = run(optimizer, devices=devices, jit_compile=jit_compile)
    for name in SHAPES:
        by_muon = optimizer == "muon" and name in ("wide", "tall")
        reference = optimizers_np.muon if by_muon else optimizers_np.adamw
        expected = reference(start(name), *applied(name), decay_of(name))
        assert_close(found.weights[name], expected)


@EVERYWHERE
def test_schedule_free_adamw(devices, jit_compile) -> None:
    found = run("schedule_free_adamw", devices=devices, jit_compile=jit_compile)
    for name in SHAPES:
        points = optimizers_np.schedule_free(
            start(name), *applied(name), decay_of(name)
        )
        y, x = zip(*points, strict=True)
        assert_close(found.weights[name], list(y))
        assert_close(found.averages[name], list(x))


def test_keras_own_schedule_free_update_is_refused() -> None:
    """Keras 3.15 computes it wrongly with TensorFlow; if not, the error should go."""
    own = keras.optimizers.ScheduleFreeAdamW(0.1, beta_2=0.98, epsilon=1e-9)
    ours = OPTIMIZERS["schedule_free_adamw"](0.1)
    weights = [keras.Variable(np.zeros(1), dtype="float32") for _ in "12"]
    for optimizer, weight in zip((own, ours), weights, strict=True):
        optimizer.build([weight])
    yes, gradient = tf.constant(True), [tf.ones([1])]
    for _ in range(20):
        own.apply(gradient)
        ours.apply_summed(gradient, tf.constant(1.0), finite=yes, counts=yes)
    (y, _), *_ = reversed(
        optimizers_np.schedule_free(np.zeros(1), [np.ones(1)] * 20, [0.1] * 20, 0.0)
    )
    np.testing.assert_allclose(weights[1].numpy(), y, rtol=1e-5)
    assert abs(weights[0].numpy() - y) > 0.05
    with pytest.raises(NotImplementedError, match="differs from its paper"):
        ours.apply(gradient)


def test_loaded_weights_are_where_schedule_free_starts() -> None:
    weight = keras.Variable(np.zeros((2, 3)), dtype="float32")
    optimizer = OPTIMIZERS["schedule_free_adamw"](0.25)
    optimizer.build([weight])
    weight.assign(np.full((2, 3), 5.0))
    optimizer.weights_loaded()
    yes = tf.constant(True)
    gradient = [tf.ones((2, 3))]
    optimizer.apply_summed(gradient, tf.constant(1.0), finite=yes, counts=yes)
    # The first update is one of size 1 times the rate.
    np.testing.assert_allclose(weight.numpy(), np.full((2, 3), 4.75), rtol=1e-6)
