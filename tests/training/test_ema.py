"""Exponential moving average of the weights against float64 NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.weight_averages import WeightAverages
from tests.devices import cpu_strategy

DECAY = 0.6


def expected_averages(weights: list[np.ndarray], decay: float) -> list[np.ndarray]:
    """The average after each update, from the definition, in float64."""
    average, averages = weights[0].astype("float64"), []
    for n, weight in enumerate(weights[1:], start=1):
        d = min(decay, (1 + n) / (10 + n))
        average = d * average + (1 - d) * weight
        averages.append(average)
    return averages


@pytest.mark.parametrize("devices", [1, 2])
def test_it_is_the_decaying_mean_of_all_weights(devices) -> None:
    rng = np.random.default_rng(3)
    path = [rng.normal(size=(2, 3)).astype("float32") for _ in range(30)]
    strategy = cpu_strategy(devices)
    with strategy.scope():
        weight = keras.Variable(path[0], name="w")
        averages = WeightAverages([weight], DECAY)

    @tf.function(autograph=False)
    def update(n, applies):
        strategy.run(averages.update, args=(n, applies))

    found = []
    for n, value in enumerate(path[1:], start=1):
        weight.assign(value)
        update(tf.constant(n, tf.int64), tf.constant(True))
        found.append(averages.averages[0].numpy())
        # An update that was skipped changes no bit.
        update(tf.constant(n, tf.int64), tf.constant(False))
        np.testing.assert_array_equal(averages.averages[0].numpy(), found[-1])
    expected = expected_averages(path, DECAY)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_weights_and_averages_are_exchanged_for_a_while() -> None:
    weights = [keras.Variable(np.full(shape, 2.0)) for shape in ((2,), (1, 3))]
    averages = WeightAverages(weights, 0.9)
    for weight in weights:
        weight.assign(weight + 5.0)
    with pytest.raises(RuntimeError), averages.in_use():
        for weight, average in averages.by_weight:
            assert set(weight.numpy().ravel()) == {2.0}
            assert set(average.numpy().ravel()) == {7.0}
        raise RuntimeError("an evaluation that fails")
    for weight, average in averages.by_weight:
        assert set(weight.numpy().ravel()) == {7.0}
        assert set(average.numpy().ravel()) == {2.0}
    averages.reset()
    assert all(set(a.numpy().ravel()) == {7.0} for a in averages.averages)
