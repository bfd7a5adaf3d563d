"""Residual, dropout and norm against NumPy."""

import numpy as np
import pytest
from keras import ops

from t2t_keras.model.dropout import Dropout
from t2t_keras.model.residual import ResidualNorm
from tests.model.copy_weights import copy_norm
from tests.reference import transformer_np
from tests.reference.weights_np import Sizes, random_norm

B, L, D = 4, 5, 7


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(6)


def test_the_norm_is_of_the_sum(rng: np.random.Generator) -> None:
    weights = random_norm(rng, Sizes(d_model=D))
    layer = ResidualNorm(0.0)
    layer.build((B, L, D))
    copy_norm(layer, weights)
    x, sublayer = rng.normal(size=(B, L, D)), rng.normal(size=(B, L, D))
    expected = transformer_np.add_and_norm(x, sublayer, weights)
    np.testing.assert_allclose(
        layer(x.astype("f"), sublayer.astype("f")), expected, atol=5e-6
    )


def test_epsilon_is_that_of_the_authors_code(rng: np.random.Generator) -> None:
    # A variance of about 1e-6, where epsilon 1e-6 takes off a factor of 0.7;
    # 1e-5 would take off 0.3, and Keras' 1e-3 0.03.
    x = 1e-3 * rng.normal(size=(B, L, D))
    layer = ResidualNorm(0.0)
    actual = layer(x.astype("f"), np.zeros_like(x, "f"))
    expected = transformer_np.layer_norm(x, np.ones(D), np.zeros(D), epsilon=1e-6)
    np.testing.assert_allclose(actual, expected, atol=1e-4)
    for wrong in (1e-5, 1e-7, 1e-3):
        off = transformer_np.layer_norm(x, np.ones(D), np.zeros(D), epsilon=wrong)
        assert np.abs(actual - off).max() > 0.1


def test_what_is_dropped_is_the_sub_layer_and_never_the_residual(
    rng: np.random.Generator,
) -> None:
    x, sublayer = rng.normal(size=(2, B, L, D)).astype("f")
    keys = np.arange(B, dtype="uint32")
    layer = ResidualNorm(0.5)
    dropped = ops.convert_to_numpy(Dropout(0.5)(sublayer, dropout_keys=keys))
    assert 0.2 < (dropped == 0).mean() < 0.8
    expected = transformer_np.layer_norm(
        x.astype("float64") + dropped, np.ones(D), np.zeros(D)
    )
    actual = layer(x, sublayer, dropout_keys=keys)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_norm_runs_in_float32_under_bfloat16() -> None:
    # Variance 2^-8 about a mean of 1, all exact in bfloat16, but no square is.
    x = np.tile([1.0 - 2**-4, 1.0 + 2**-4], (1, 1, 16)).astype("float32")
    layer = ResidualNorm(0.0, dtype="mixed_bfloat16")
    actual = ops.cast(layer(x, np.zeros_like(x)), "float32")
    np.testing.assert_array_equal(actual, np.sign(x - 1))


def test_the_rate_is_checked_when_the_layer_is_made() -> None:
    with pytest.raises(ValueError, match=r"dropout_rate must be in \[0, 1\)"):
        ResidualNorm(1.0)
