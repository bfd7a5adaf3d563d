"""Projections held against NumPy's products, one kernel at a time."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model.projection import project

B, L, D = 3, 5, 7


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


# One kernel; several of different widths, in an order that sorting would change.
@pytest.mark.parametrize("widths", [(4,), (6, 2), (4, 9, 1)])
@pytest.mark.parametrize("jit_compile", [None, True])
def test_each_kernel_has_its_own_product(rng, widths, jit_compile) -> None:
    inputs = rng.normal(size=(B, L, D)).astype("float32")
    kernels = [rng.normal(size=(D, width)).astype("float32") for width in widths]

    @tf.function(
        input_signature=[tf.TensorSpec([None, None, D])], jit_compile=jit_compile
    )
    def projected(inputs):
        found = project(inputs, *map(tf.constant, kernels))
        assert [part.shape.as_list() for part in found] == [
            [None, None, width] for width in widths
        ]
        return found

    for found, kernel in zip(projected(inputs), kernels, strict=True):
        expected = inputs.astype("float64") @ kernel.astype("float64")
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_gradients_reach_every_kernel_and_the_inputs(rng) -> None:
    inputs = tf.constant(rng.normal(size=(B, L, D)), tf.float32)
    kernels = [tf.constant(rng.normal(size=(D, n)), tf.float32) for n in (2, 5)]
    wanted = [rng.normal(size=(B, L, n)).astype("float32") for n in (2, 5)]
    with tf.GradientTape() as tape:
        tape.watch([inputs, *kernels])
        parts = project(inputs, *kernels)
        total = sum(
            tf.reduce_sum(part * by) for part, by in zip(parts, wanted, strict=True)
        )
    by_inputs, *by_kernels = tape.gradient(total, [inputs, *kernels])
    for found, by in zip(by_kernels, wanted, strict=True):
        expected = np.einsum("bld,bln->dn", inputs.numpy().astype("float64"), by)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    expected = sum(
        np.einsum("bln,dn->bld", by.astype("float64"), kernel.numpy())
        for by, kernel in zip(wanted, kernels, strict=True)
    )
    np.testing.assert_allclose(by_inputs, expected, atol=1e-5)


def test_products_are_in_the_dtype_of_the_inputs(rng) -> None:
    inputs = tf.cast(tf.constant(rng.normal(size=(B, L, D))), tf.bfloat16)
    kernel = tf.constant(rng.normal(size=(D, 4)), tf.float32)
    (found,) = project(inputs, kernel)
    assert found.dtype == tf.bfloat16
    exact = tf.cast(inputs, tf.float64).numpy() @ kernel.numpy().astype("float64")
    np.testing.assert_allclose(tf.cast(found, tf.float64), exact, atol=0.05)
