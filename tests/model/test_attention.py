"""Attention against NumPy, head by head, with illegal keys removed."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_keras.model.attention import (
    MultiHeadAttention,
    attention_weights,
    dot_product_attention,
)
from t2t_keras.model.neighborhood_attention import NeighborhoodAttention
from tests.model.copy_weights import copy_attention
from tests.reference import transformer_np
from tests.reference.weights_np import Sizes, random_attention

B, T, S, D, H, K, U = 4, 5, 9, 8, 3, 6, 7


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(8)


def hostile_mask(rng: np.random.Generator) -> np.ndarray:
    """[B, T, S]: random, and a row without a single legal key at the end."""
    mask_BTS = rng.random((B, T, S)) < 0.5
    mask_BTS[0] = True
    mask_BTS[1, :, 3:] = False
    mask_BTS[1, :, 0] = True
    mask_BTS[-1] = False
    return mask_BTS


def test_attention_is_equation_1_for_every_head(rng: np.random.Generator) -> None:
    queries, keys = rng.normal(size=(B, H, T, K)), rng.normal(size=(B, H, K, S))
    values, mask = rng.normal(size=(B, H, S, U)), hostile_mask(rng)
    inputs = [tensor.astype("float32") for tensor in (queries, keys, values)]
    actual = ops.convert_to_numpy(dot_product_attention(*inputs, mask))
    for b, h in np.ndindex(B, H):
        expected_TU = transformer_np.attention(
            queries[b, h], keys[b, h].T, values[b, h], mask[b]
        )
        np.testing.assert_allclose(actual[b, h], expected_TU, atol=2e-6)


def test_weights_are_those_that_values_are_summed_with(
    rng: np.random.Generator,
) -> None:
    queries, keys, values = (
        rng.normal(size=shape).astype("float32")
        for shape in [(B, H, T, K), (B, H, K, S), (B, H, S, U)]
    )
    mask = hostile_mask(rng)
    weights_BHTS = np.asarray(attention_weights(queries, keys, mask))
    sums_BHT = np.broadcast_to(mask.any(-1)[:, None], (B, H, T))
    np.testing.assert_allclose(weights_BHTS.sum(-1), sums_BHT, atol=1e-6)
    np.testing.assert_allclose(
        np.einsum("BHTS,BHSU->BHTU", weights_BHTS, values),
        dot_product_attention(queries, keys, values, mask),
        atol=2e-6,
    )


def test_without_a_mask_every_key_is_legal(rng: np.random.Generator) -> None:
    queries, keys, values = (
        rng.normal(size=shape).astype("float32")
        for shape in [(B, H, T, K), (B, H, K, S), (B, H, S, U)]
    )
    np.testing.assert_array_equal(
        dot_product_attention(queries, keys, values, None),
        dot_product_attention(queries, keys, values, np.ones((1, T, S), bool)),
    )


def test_a_query_without_a_legal_key_gets_zeros_and_has_no_gradient(
    rng: np.random.Generator,
) -> None:
    queries, keys, values = (
        tf.constant(rng.normal(size=shape), tf.float32)
        for shape in [(B, H, T, K), (B, H, K, S), (B, H, S, U)]
    )
    with tf.GradientTape() as tape:
        tape.watch([queries, keys, values])
        attended = dot_product_attention(queries, keys, values, hostile_mask(rng))
    assert not np.any(attended[-1])
    gradients = tape.gradient(attended, [queries, keys, values])
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert not any(np.any(gradient[-1]) for gradient in gradients)


def test_scores_far_apart_neither_overflow_nor_blur(rng: np.random.Generator) -> None:
    # e^1000 overflows: the softmax must subtract the maximum first.
    keys = np.zeros((1, 1, 4, S), "float32")
    keys[0, 0, 0, 2:4] = 1000.0
    values = rng.normal(size=(1, 1, S, U)).astype("float32")
    queries = np.full((1, 1, 1, 4), 2.0, "float32")
    attended = dot_product_attention(queries, keys, values, None)
    np.testing.assert_allclose(attended[0, 0, 0], values[0, 0, 2:4].mean(0), rtol=1e-5)


def test_softmax_is_float32_under_bfloat16(rng: np.random.Generator) -> None:
    # With one channel and a query of 1, the scores are the keys, exact in bfloat16.
    # With unit vectors as values, the outputs are the weights. Compiled, because XLA
    # computes a bfloat16 softmax in bfloat16, with an error of 6 % here; one rounding
    # is 0.4 %.
    length = 512
    scores = tf.cast(tf.constant(3 * rng.normal(size=length)), "bfloat16")
    values = tf.eye(length, dtype="bfloat16")[None, None]
    attend = tf.function(dot_product_attention, jit_compile=True, autograph=False)
    weights = attend(
        tf.ones((1, 1, 1, 1), "bfloat16"), scores[None, None, None], values, None
    )
    assert weights.dtype == "bfloat16"
    expected = transformer_np.softmax(tf.cast(scores, "float64").numpy())
    np.testing.assert_allclose(
        tf.cast(weights, "float64")[0, 0, 0], expected, rtol=0.005
    )


def test_heads_are_projected_attended_and_joined(rng: np.random.Generator) -> None:
    weights = random_attention(rng, Sizes(d_model=D, num_heads=H, d_k=K, d_v=U))
    layer = MultiHeadAttention(H, K, U)
    queries, memory = rng.normal(size=(B, T, D)), rng.normal(size=(B, S, D))
    layer.build(queries.shape, memory.shape)
    copy_attention(layer, weights)
    mask = hostile_mask(rng)
    actual = ops.convert_to_numpy(
        layer(queries.astype("f"), memory.astype("f"), attention_mask=mask)
    )
    for b in range(B):
        expected_TD = transformer_np.multi_head_attention(
            queries[b], memory[b], weights, mask[b]
        )
        np.testing.assert_allclose(actual[b], expected_TD, atol=1e-5)


@pytest.mark.parametrize("neighborhood", [None, 3])
def test_the_bias_of_keys_has_no_gradient(rng, neighborhood: int | None) -> None:
    """Softmax takes no notice of it, which the reference shows by differences."""
    weights = random_attention(rng, Sizes(d_model=D, num_heads=H, d_k=K, d_v=U))
    shapes = {"query": (H, K), "key": (H, K), "value": (H, U), "output": D}
    biases = {f"{name}_bias": rng.normal(size=size) for name, size in shapes.items()}
    weights = replace(weights, **biases)
    layer = MultiHeadAttention(H, K, U, use_bias=True)
    mask_TT = transformer_np.causal_mask(T)
    if neighborhood is not None:
        layer = NeighborhoodAttention(H, K, U, neighborhood, use_bias=True)
        mask_TT = transformer_np.neighborhood_mask(T, neighborhood)
    inputs, factors = rng.normal(size=(B, T, D)), rng.normal(size=(B, T, D))
    layer.build(inputs.shape)
    copy_attention(layer, weights)
    mask = mask_TT[None] if neighborhood is None else np.ones((B, 1, T), bool)
    with tf.GradientTape() as tape:
        attended = layer(inputs.astype("f"), attention_mask=mask)
        loss = tf.reduce_sum(attended * factors.astype("f"))
    variables = [layer.key_bias.value, layer.query_bias.value]
    key_gradient, query_gradient = map(np.asarray, tape.gradient(loss, variables))
    np.testing.assert_array_equal(key_gradient, np.zeros(H * K))

    def reference_loss(**changed: np.ndarray) -> float:
        other = replace(weights, **changed)
        rows = [
            transformer_np.multi_head_attention(row, row, other, mask_TT)
            for row in inputs
        ]
        return float(np.sum(rows * factors))

    step_HK = 1e-5 * rng.normal(size=(H, K))
    moved = reference_loss(key_bias=weights.key_bias + step_HK) - reference_loss()
    assert abs(moved) < 1e-12
    moved = reference_loss(query_bias=weights.query_bias + step_HK) - reference_loss()
    assert moved == pytest.approx(step_HK.ravel() @ query_gradient, abs=1e-8)
    assert abs(moved) > 1e-6
