"""Dense projection, feed-forward network, residual connection against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_keras.model.dropout import Dropout
from t2t_keras.model.layer_parts import LayerParts
from t2t_keras.model.layers import FeedForward, ResidualNorm, project
from t2t_keras.settings.model_config import LayerOptions
from tests.model.copy_weights import copy_feed_forward, copy_norm
from tests.reference import transformer_np
from tests.reference.weights_np import Sizes, random_feed_forward, random_norm

B, L, D, F = 4, 5, 7, 11


def make_residual(dropout_rate: float = 0.0, dtype: str = "float32") -> ResidualNorm:
    """Returns that of a layer with otherwise default options."""
    parts = LayerParts()
    parts.options = LayerOptions(dropout_rate=dropout_rate)
    return parts.make_residual(name="residual", dtype=dtype)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(6)


# One kernel; several of different widths, in an order that sorting would change.
@pytest.mark.parametrize("widths", [(4,), (6, 2), (4, 9, 1)])
@pytest.mark.parametrize("jit_compile", [None, True])
def test_each_kernel_has_its_own_product(rng, widths, jit_compile) -> None:
    inputs = rng.normal(size=(B, L, D)).astype("float32")
    kernels = [rng.normal(size=(D, width)).astype("float32") for width in widths]

    @tf.function(
        input_signature=[tf.TensorSpec([None, None, D])],
        jit_compile=jit_compile,
        autograph=False,
    )
    def project_all(inputs):
        parts = project(inputs, *map(tf.constant, kernels))
        assert [part.shape.as_list() for part in parts] == [
            [None, None, width] for width in widths
        ]
        return parts

    for actual, kernel in zip(project_all(inputs), kernels, strict=True):
        expected = inputs.astype("float64") @ kernel.astype("float64")
        np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_gradients_reach_every_kernel_and_the_inputs(rng) -> None:
    inputs = tf.constant(rng.normal(size=(B, L, D)), tf.float32)
    kernels = [tf.constant(rng.normal(size=(D, n)), tf.float32) for n in (2, 5)]
    factors = [rng.normal(size=(B, L, n)).astype("float32") for n in (2, 5)]
    with tf.GradientTape() as tape:
        tape.watch([inputs, *kernels])
        parts = project(inputs, *kernels)
        total = sum(
            tf.reduce_sum(part * factor)
            for part, factor in zip(parts, factors, strict=True)
        )
    grad_inputs, *grad_kernels = tape.gradient(total, [inputs, *kernels])
    for actual, factor in zip(grad_kernels, factors, strict=True):
        expected = np.einsum("bld,bln->dn", inputs.numpy().astype("float64"), factor)
        np.testing.assert_allclose(actual, expected, atol=1e-5)
    expected = sum(
        np.einsum("bln,dn->bld", factor.astype("float64"), kernel.numpy())
        for factor, kernel in zip(factors, kernels, strict=True)
    )
    np.testing.assert_allclose(grad_inputs, expected, atol=1e-5)


def test_products_are_in_the_dtype_of_the_inputs(rng) -> None:
    inputs = tf.cast(tf.constant(rng.normal(size=(B, L, D))), tf.bfloat16)
    kernel = tf.constant(rng.normal(size=(D, 4)), tf.float32)
    (actual,) = project(inputs, kernel)
    assert actual.dtype == tf.bfloat16
    left, right = (tf.cast(each, tf.float64).numpy() for each in (inputs, kernel))
    # bfloat16 has 8 significant bits, a unit roundoff of 2^-8. The kernel is rounded,
    # and some processors round each of the D partial sums too (Higham 2002, section
    # 3.1): at most D + 1 roundings of terms of the size of |x| |k|.
    bound = (D + 1) * 2.0**-8 * (np.abs(left) @ np.abs(right))
    errors = np.abs(tf.cast(actual, tf.float64).numpy() - left @ right)
    assert (errors <= bound).all()
    # One term less would be seen.
    missing = np.abs(left[..., 1:] @ right[1:] - left @ right)
    assert (missing > bound).any()


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
    # Both sides of ReLU have inputs that are not small.
    inner = inputs @ weights.w1 + weights.b1
    assert (inner > 0.1).any() and (inner < -0.1).any()
    np.testing.assert_allclose(layer(inputs.astype("f")), expected, atol=1e-5)


def test_the_norm_is_of_the_sum(rng: np.random.Generator) -> None:
    weights = random_norm(rng, Sizes(d_model=D))
    layer = make_residual()
    layer.build((B, L, D))
    copy_norm(layer, weights)
    x, sublayer = rng.normal(size=(B, L, D)), rng.normal(size=(B, L, D))
    expected = transformer_np.add_and_norm(x, sublayer, weights)
    np.testing.assert_allclose(
        layer(x.astype("f"), sublayer.astype("f")), expected, atol=5e-6
    )


def test_epsilon_is_that_of_the_authors_code(rng: np.random.Generator) -> None:
    # With a variance of about 1e-6, epsilon 1e-6 scales the result by 0.7, 1e-5 would
    # scale it by 0.3, and Keras' default 1e-3 by 0.03.
    x = 1e-3 * rng.normal(size=(B, L, D))
    layer = make_residual()
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
    layer = make_residual(0.5)
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
    layer = make_residual(dtype="mixed_bfloat16")
    actual = ops.cast(layer(x, np.zeros_like(x)), "float32")
    np.testing.assert_array_equal(actual, np.sign(x - 1))


def test_the_rate_is_checked_when_the_layer_is_made() -> None:
    with pytest.raises(ValueError, match=r"dropout_rate must be in \[0, 1\)"):
        ResidualNorm(keras.layers.LayerNormalization(), 1.0, "post")
