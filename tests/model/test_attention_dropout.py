"""Attention dropout: which weights are dropped, how many, and the attention output."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_keras.model.attention import MultiHeadAttention
from t2t_keras.model.dropout import AttentionDropout
from tests.model.copy_weights import copy_attention
from tests.reference import transformer_np
from tests.reference.weights_np import Sizes, random_attention

B, H, T, S, D, K, U = 5, 3, 6, 9, 8, 7, 4
KEYS = np.array([0, 1, 7, 2**31, 2**32 - 1], "uint32")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(18)


def kept_mask(rate: float, keys: np.ndarray, *shape: int) -> np.ndarray:
    """True where a weight of rows of `shape` is kept."""
    ones = np.ones((len(keys), *shape), "float32")
    return np.array(AttentionDropout(rate)(ones, dropout_keys=keys)) != 0


def hash_word(word: int) -> int:
    """Hash of ADR 0013 in Python integers."""
    word ^= word >> 16
    word = word * 0x7FEB352D % 2**32
    word ^= word >> 15
    word = word * 0x846CA68B % 2**32
    return word ^ word >> 16


def fold(key: int, number: int) -> int:
    return hash_word((hash_word(key) * 3 + hash_word(number + 1)) % 2**32)


def test_what_is_dropped_is_a_hash_of_row_head_query_and_key() -> None:
    actual = kept_mask(0.4, KEYS, H, T, S)
    for place in np.ndindex(B, H, T, S):
        row, head, query, key = place
        word = hash_word(hash_word(key) ^ fold(fold(int(KEYS[row]), head), query))
        assert actual[place] == (word >= round(0.4 * 2**32)), place


def test_attention_is_the_references_with_weights_dropped(rng) -> None:
    weights = random_attention(rng, Sizes(d_model=D, num_heads=H, d_k=K, d_v=U))
    layer = MultiHeadAttention(H, K, U, dropout_rate=0.3)
    layer.build((B, T, D))
    copy_attention(layer, weights)
    queries, memory = rng.normal(size=(B, T, D)), rng.normal(size=(B, S, D))
    mask = rng.random((B, T, S)) < 0.6
    mask[:, :, 0] = True
    mask[0] = False  # a row of padding only: its output must be finite
    actual = layer(queries.astype("f"), memory.astype("f"), mask, dropout_keys=KEYS)
    assert np.isfinite(actual).all()
    left = kept_mask(0.3, KEYS, H, T, S) / 0.7
    for b in range(1, B):
        expected_TD = np.zeros((T, D))
        for h in range(H):
            weights_TS = transformer_np.attention_weights(
                queries[b] @ weights.query[:, h], memory[b] @ weights.key[:, h], mask[b]
            )
            values_SU = memory[b] @ weights.value[:, h]
            expected_TD += weights_TS * left[b, h] @ values_SU @ weights.output[h]
        np.testing.assert_allclose(actual[b], expected_TD, atol=2e-5)
    # Without keys nothing is dropped, at any rate.
    whole = layer(queries.astype("f"), memory.astype("f"), mask)
    expected_TD = transformer_np.multi_head_attention(
        queries[1], memory[1], weights, mask[1]
    )
    np.testing.assert_allclose(whole[1], expected_TD, atol=2e-5)


def test_a_row_drops_the_same_in_any_company_and_shape() -> None:
    whole = kept_mask(0.4, KEYS, H, T, S)
    some = [4, 0, 3]
    np.testing.assert_array_equal(kept_mask(0.4, KEYS[some], H, T, S), whole[some])
    # Padded on both sides, and with more heads.
    padded = kept_mask(0.4, KEYS, H + 1, T + 5, S + 3)
    np.testing.assert_array_equal(padded[:, :H, :T, :S], whole)


@pytest.mark.parametrize("shape", [(None, H, None, None), (B, H, T, S)])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_it_is_bit_equal_however_computed(shape, jit_compile, rng) -> None:
    weights = rng.random((B, H, T, S)).astype("f")
    layer = AttentionDropout(0.6)
    traced = tf.function(
        lambda x, keys: layer(x, dropout_keys=keys),
        input_signature=[tf.TensorSpec(shape), tf.TensorSpec([None], tf.uint32)],
        jit_compile=jit_compile,
        autograph=False,
    )
    expected = layer(weights, dropout_keys=KEYS)
    np.testing.assert_array_equal(traced(weights, KEYS), expected)


def test_nothing_is_dropped_without_keys_or_at_rate_0(rng) -> None:
    weights = rng.random((B, H, T, S)).astype("f")
    np.testing.assert_array_equal(AttentionDropout(0.9)(weights), weights)
    passed = AttentionDropout(0.0)(weights, dropout_keys=KEYS)
    np.testing.assert_array_equal(passed, weights)
    assert ops.shape(AttentionDropout(0.5)(weights, dropout_keys=KEYS)) == (B, H, T, S)
