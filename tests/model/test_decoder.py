"""Decoder against NumPy, for all positions at once and step by step."""

import numpy as np
import pytest

from t2t_keras.model.decoder import DecodeContext, Decoder
from t2t_keras.model.masks import causal_mask
from tests.model.copy_weights import copy_decoder_layer
from tests.model.recorded_keys import record_keys
from tests.reference import transformer_np
from tests.reference.weights_np import Sizes, random_decoder_layer

N, B, T, S, D, F, H, K, U, W = 2, 3, 5, 9, 8, 11, 4, 6, 7, 13
SIZES = Sizes(d_model=D, d_ff=F, num_heads=H, d_k=K, d_v=U)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(17)


@pytest.fixture
def weights(rng: np.random.Generator) -> list:
    return [random_decoder_layer(rng, SIZES) for _ in range(N)]


@pytest.fixture
def decoder(weights: list) -> Decoder:
    decoder = Decoder(N, H, K, U, F, 0.1)
    decoder.build((None, None, D), (None, None, D))
    for layer, layer_weights in zip(decoder.layers, weights, strict=True):
        copy_decoder_layer(layer, layer_weights)
    return decoder


def source_mask() -> np.ndarray:
    return (np.arange(S) < np.array([S, 1, 4])[:, None])[:, None]


def test_a_stack_is_layer_upon_layer(decoder, weights, rng) -> None:
    hidden, memory = rng.normal(size=(B, T, D)), rng.normal(size=(B, S, D))
    # A random mask, because masks need not be causal.
    mask = rng.random((B, T, T)) < 0.5
    mask |= np.eye(T, dtype=bool)
    actual = decoder(
        hidden.astype("f"),
        memory.astype("f"),
        attention_mask=mask,
        memory_mask=source_mask(),
    )
    for b in range(B):
        expected_TD = hidden[b]
        memory_mask = np.tile(source_mask()[b], (T, 1))
        for layer_weights in weights:
            expected_TD = transformer_np.decoder_layer(
                expected_TD, memory[b], layer_weights, mask[b], memory_mask
            )
        np.testing.assert_allclose(actual[b], expected_TD, atol=2e-5)


def test_steps_are_the_whole(decoder, rng) -> None:
    # Each beam has its own input, so there are B * W sentences.
    hidden = rng.normal(size=(B, W, T, D)).astype("f")
    memory = rng.normal(size=(B, S, D)).astype("f")
    whole = decoder(
        hidden.reshape(B * W, T, D),
        np.repeat(memory, W, axis=0),
        attention_mask=causal_mask(T),
        memory_mask=np.repeat(source_mask(), W, axis=0),
    )
    whole = np.array(whole).reshape(B, W, T, D)
    caches = decoder.empty_caches(B, T * W)
    for t in range(T):
        # A beam's own tokens are every W-th.
        own = np.tile(np.eye(W, dtype=bool), T)[None].repeat(B, axis=0)
        own[..., (t + 1) * W :] = False
        step, caches = decoder.step(
            hidden[:, :, t],
            DecodeContext(caches[0].rows(t * W, W), own, source_mask()),
            caches,
            decoder.cross_attention_caches(memory),
            decoder.fused_qkv_kernels(),
        )
        np.testing.assert_allclose(step, whole[:, :, t], atol=2e-5)


def test_each_layer_and_sub_layer_drops_its_own(decoder) -> None:
    with record_keys() as recorded:
        decoder(
            np.ones((B, T, D), "f"),
            np.ones((B, S, D), "f"),
            dropout_keys=np.arange(B, dtype="uint32"),
        )
    assert len(recorded) == N * 3 * B
    assert len(set(recorded)) == len(recorded)


def test_each_query_of_both_attentions_drops_its_own() -> None:
    decoder = Decoder(N, H, K, U, F, 0.5, attention_dropout_rate=0.5)
    with record_keys() as recorded:
        decoder(
            np.ones((B, T, D), "f"),
            np.ones((B, S, D), "f"),
            dropout_keys=np.arange(B, dtype="uint32"),
        )
    assert len(recorded) == N * (3 + 2 * H * T) * B
    assert len(set(recorded)) == len(recorded)
