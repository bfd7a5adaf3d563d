"""Norms against NumPy."""

import keras
import numpy as np
import pytest

from t2t_keras.training.metrics import norms_by_name, weight_norm


def test_norms_are_numpys() -> None:
    rng = np.random.default_rng(5)
    values = [rng.normal(size=shape) for shape in ((3, 4), (5,))]
    layer = keras.layers.Layer(name="layer")
    for name, value in zip("ab", values, strict=True):
        weight = layer.add_weight(shape=value.shape, name=name)
        weight.assign(value)
    whole = np.sqrt(sum((value**2).sum() for value in values))
    assert weight_norm(layer.weights) == pytest.approx(whole, rel=1e-6)
    each = norms_by_name(layer.weights)
    assert list(each) == ["layer/a", "layer/b"]
    assert list(each.values()) == pytest.approx(
        [np.linalg.norm(value) for value in values], rel=1e-6
    )


def test_norms_of_huge_weights_are_still_numbers() -> None:
    layer = keras.layers.Layer(name="layer")
    layer.add_weight(
        shape=(3,), name="a", initializer=keras.initializers.Constant(4e27)
    )
    norms = norms_by_name(layer.weights)
    assert norms == {"layer/a": pytest.approx(4e27 * 3**0.5, rel=1e-6)}
