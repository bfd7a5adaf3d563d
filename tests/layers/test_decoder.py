"""The decoder against NumPy, whole and step by step."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers.decoder import Decoder
from t2t_keras.layers.masks import causal_mask
from tests.layers.copy_weights import copy_decoder_layer
from tests.layers.recorded_keys import recorded_keys
from tests.reference import transformer_np
from tests.reference.weights_np import Sizes, random_decoder_layer

N, B, T, S, D, F, H, K, U, W, L = 2, 3, 5, 9, 8, 11, 4, 6, 7, 13, 10
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
    # Any mask will do, not just the causal one.
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


def test_caches_have_room_for_every_beam(decoder) -> None:
    caches = decoder.empty_caches(B, W, L)
    assert len(caches) == N
    for cache in caches:
        assert set(cache) == {"keys", "values"}
        assert tuple(cache["keys"].shape) == (B, W, L, H, K)
        assert tuple(cache["values"].shape) == (B, W, L, H, U)
        assert not np.any(cache["keys"]) and not np.any(cache["values"])


def test_steps_are_the_whole(decoder, rng) -> None:
    # Each beam has an input of its own; together they are B * W sentences.
    hidden = rng.normal(size=(B, W, T, D)).astype("f")
    memory = rng.normal(size=(B, S, D)).astype("f")
    whole = decoder(
        hidden.reshape(B * W, T, D),
        np.repeat(memory, W, axis=0),
        attention_mask=causal_mask(T),
        memory_mask=np.repeat(source_mask(), W, axis=0),
    )
    whole = np.array(whole).reshape(B, W, T, D)
    # What lies beyond the present position must not be seen, zero or not.
    caches = [
        {
            name: tf.constant(rng.normal(size=room.shape), tf.float32)
            for name, room in cache.items()
        }
        for cache in decoder.empty_caches(B, W, L)
    ]
    memory_caches = decoder.memory_caches(memory)
    for t in range(T):
        before = caches
        step, caches = decoder.step(
            hidden[:, :, t], t, caches, memory_caches, source_mask()
        )
        np.testing.assert_allclose(step, whole[:, :, t], atol=2e-5)
        for old, new in zip(before, caches, strict=True):
            for name in old:
                changed = np.array(old[name] != new[name]).any(axis=(0, 1, 3, 4))
                assert np.flatnonzero(changed).tolist() == [t]


def test_memory_is_projected_once_a_sentence(decoder, rng) -> None:
    memory = rng.normal(size=(B, S, D)).astype("f")
    caches = decoder.memory_caches(memory)
    assert [tuple(c["keys"].shape) for c in caches] == [(B, S, H, K)] * N
    assert [tuple(c["values"].shape) for c in caches] == [(B, S, H, U)] * N
    keys, _ = decoder.layers[1].memory_attention.keys_values(memory)
    np.testing.assert_array_equal(caches[1]["keys"], keys)


def test_each_layer_and_sub_layer_drops_its_own(decoder) -> None:
    with recorded_keys() as given:
        decoder(
            np.ones((B, T, D), "f"),
            np.ones((B, S, D), "f"),
            dropout_keys=np.arange(B, dtype="uint32"),
        )
    assert len(given) == N * 3 * B
    assert len(set(given)) == len(given)
