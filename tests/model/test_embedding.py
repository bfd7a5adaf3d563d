"""The shared embedding against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model.embedding import SharedEmbedding

V, D = 13, 6
TOKENS = ((5, 3, 12, 0), (0, 0, 0, 0), (1, 5, 5, 2))


@pytest.fixture
def layer() -> SharedEmbedding:
    layer = SharedEmbedding(V, D)
    layer.build()
    layer.embeddings.assign(np.random.default_rng(7).normal(size=(V, D)))
    return layer


def test_vectors_are_scaled_and_padding_is_zero(layer: SharedEmbedding) -> None:
    table = layer.embeddings.numpy().astype("float64")
    expected = np.array(
        [[table[t] * np.sqrt(6) if t else np.zeros(D) for t in row] for row in TOKENS]
    )
    # The row of padding is not zero itself: it still makes a logit.
    assert table[0].any()
    np.testing.assert_allclose(layer(np.array(TOKENS)), expected, atol=1e-6)


def test_logits_are_unscaled_products_with_every_row(layer: SharedEmbedding) -> None:
    hidden = np.random.default_rng(8).normal(size=(2, 3, D))
    expected = hidden @ layer.embeddings.numpy().astype("float64").T
    logits = layer.logits(hidden.astype("f"))
    assert tuple(logits.shape) == (2, 3, V)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_one_matrix_takes_both_gradients(layer: SharedEmbedding) -> None:
    hidden = np.random.default_rng(9).normal(size=(1, 1, D)).astype("f")
    with tf.GradientTape() as tape:
        looked_up = tf.reduce_sum(layer(np.array([[3, 3, 0]])))
        loss = looked_up + tf.reduce_sum(layer.logits(hidden))
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.embeddings.value))
    expected = np.tile(hidden[0], (V, 1)).astype("float64")
    expected[3] += 2 * np.sqrt(D)
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


def test_scale_and_products_are_bfloat16_where_the_policy_says() -> None:
    layer = SharedEmbedding(V, D, dtype="mixed_bfloat16")
    assert layer(np.array(TOKENS)).dtype == "bfloat16"
    assert layer.logits(tf.ones((1, 1, D), tf.bfloat16)).dtype == "bfloat16"
    assert layer.embeddings.dtype == "float32"


def test_embeddings_start_as_a_normal_of_unit_variance_after_scaling() -> None:
    layer = SharedEmbedding(600, 64)
    layer.build()
    unit = layer.embeddings.numpy() * 64**0.5
    n = unit.size
    assert unit.mean() == pytest.approx(0, abs=5 * n**-0.5)
    assert unit.var() == pytest.approx(1, abs=5 * (2 / n) ** 0.5)
    # 4.55 % of a normal lies beyond two deviations; nothing of a truncated one.
    beyond = (np.abs(unit) > 2).mean()
    assert beyond == pytest.approx(0.0455, abs=5 * (0.0455 / n) ** 0.5)


def test_a_shared_output_kernel_changes_no_logit(layer: SharedEmbedding) -> None:
    hidden = np.random.default_rng(10).normal(size=(2, 3, D)).astype("f")
    kernel = layer.output_kernel()
    assert tuple(kernel.shape) == (D, V)
    expected = hidden @ layer.embeddings.numpy().astype("float64").T
    np.testing.assert_allclose(layer.logits(hidden, kernel), expected, atol=1e-5)
    # It is taken, not made again.
    np.testing.assert_allclose(
        layer.logits(hidden, 2.0 * kernel), 2 * expected, atol=1e-5
    )


def test_half_precision_has_no_kernel_to_share() -> None:
    layer = SharedEmbedding(V, D, dtype="bfloat16")
    layer.build()
    assert layer.output_kernel() is None
