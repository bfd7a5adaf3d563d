"""The feed-forward network against NumPy."""

import numpy as np
from keras import ops

from t2t_keras.model.feed_forward import FeedForward
from tests.model.copy_weights import copy_feed_forward
from tests.reference import transformer_np
from tests.reference.weights_np import Sizes, random_feed_forward

B, L, D, F = 3, 5, 8, 11


def test_feed_forward_is_equation_2() -> None:
    rng = np.random.default_rng(4)
    weights = random_feed_forward(rng, Sizes(d_model=D, d_ff=F))
    layer = FeedForward(F)
    inputs = rng.normal(size=(B, L, D))
    layer.build(inputs.shape)
    copy_feed_forward(layer, weights)
    expected = transformer_np.ffn(
        inputs, weights.w1, weights.b1, weights.w2, weights.b2
    )
    # Both sides of the rectifier are met, and by what is not small.
    inner = inputs @ weights.w1 + weights.b1
    assert (inner > 0.1).any() and (inner < -0.1).any()
    np.testing.assert_allclose(layer(inputs.astype("f")), expected, atol=1e-5)


def test_every_position_is_treated_alike_and_alone() -> None:
    rng = np.random.default_rng(5)
    inputs = rng.normal(size=(B, L, D)).astype("f")
    layer = FeedForward(F)
    outputs = ops.convert_to_numpy(layer(inputs))
    order = rng.permutation(L)
    np.testing.assert_allclose(layer(inputs[:, order]), outputs[:, order], atol=1e-6)
    inputs[:, 2] += 1.0
    moved = np.abs(layer(inputs) - outputs).max(axis=(0, 2))
    assert np.flatnonzero(moved > 1e-6).tolist() == [2]


def test_biases_start_at_zero() -> None:
    layer = FeedForward(F)
    layer.build((B, L, D))
    assert [tuple(weight.shape) for weight in layer.weights] == [
        (D, F),
        (F,),
        (F, D),
        (D,),
    ]
    assert not layer.inner.bias.numpy().any()
    assert not layer.outer.bias.numpy().any()
