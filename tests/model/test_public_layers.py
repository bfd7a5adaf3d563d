"""Public layers alone, in Keras models of a user."""

import keras
import numpy as np
import pytest

from t2t_keras import (
    DecoderLayer,
    EncoderLayer,
    LayerOptions,
    MultiHeadAttention,
    SharedEmbedding,
)
from t2t_keras.errors import UserError
from t2t_keras.model.masks import causal_mask, padding_mask

OPTIONS = LayerOptions(d_model=6, num_heads=3, d_ff=11, activation="gelu")
V = 13


def classifier() -> keras.Model:
    """Model of tokens, by functional calls of an embedding and an encoder layer."""
    tokens = keras.Input((None,), dtype="int32")
    hidden = SharedEmbedding(V, 6)(tokens)
    hidden = EncoderLayer(OPTIONS)(hidden)
    return keras.Model(tokens, keras.layers.Dense(2)(hidden[:, 0]))


def attending() -> keras.Model:
    """Model of two sequences, by functional calls of an attention."""
    queries, memory = keras.Input((None, 6)), keras.Input((None, 6))
    attended = MultiHeadAttention(3, d_k=4, d_v=5)(queries, memory)
    return keras.Model([queries, memory], attended)


def decoding() -> keras.Model:
    """Model of two sequences, by functional calls of a decoder layer."""
    hidden, memory = keras.Input((None, 6)), keras.Input((None, 6))
    return keras.Model([hidden, memory], DecoderLayer(OPTIONS)(hidden, memory))


def two_sequences() -> list[np.ndarray]:
    rng = np.random.default_rng(61)
    return [rng.normal(size=(4, length, 6)).astype("float32") for length in (5, 7)]


@pytest.mark.parametrize("make", [classifier, attending, decoding])
def test_a_functional_model_trains_and_is_saved(make, tmp_path) -> None:
    model = make()
    inputs = two_sequences()
    if make is classifier:
        inputs = np.random.default_rng(62).integers(1, V, size=(4, 5))
    before = model.predict(inputs, verbose=0)
    model.compile("adam", loss="mse")
    model.fit(inputs, np.ones_like(before), epochs=2, verbose=0)
    after = model.predict(inputs, verbose=0)
    assert np.abs(after - 1).mean() < np.abs(before - 1).mean()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0), after)
    assert len(loaded.weights) == len(model.weights)


class Translator(keras.Model):
    """Model of a user's class, with one layer on each side."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = SharedEmbedding(V, 6)
        self.encoder = EncoderLayer(OPTIONS)
        self.decoder = DecoderLayer(OPTIONS)

    def call(self, source, target):
        mask = padding_mask(source)
        memory = self.encoder(self.embedding(source), attention_mask=mask)
        hidden = self.decoder(
            self.embedding(target),
            memory,
            attention_mask=causal_mask(target.shape[1]),
            memory_mask=mask,
        )
        return self.embedding.logits(hidden)


def test_layers_of_a_users_class_mask_what_they_are_told_to() -> None:
    rng = np.random.default_rng(63)
    source, target = rng.integers(1, V, size=(2, 3, 5))
    source[1, 3:] = 0
    model = Translator()
    logits = np.asarray(model(source, target))
    assert logits.shape == (3, 5, V)
    alone = np.asarray(model(source[1:2, :3], target[1:2]))
    np.testing.assert_allclose(logits[1:2], alone, atol=1e-5)
    changed = target.copy()
    changed[:, 3:] = 1 + changed[:, 3:] % (V - 1)
    moved = np.asarray(model(source, changed))
    np.testing.assert_array_equal(moved[:, :3], logits[:, :3])
    assert (moved[:, 3:] != logits[:, 3:]).any(-1).all()


def test_inputs_of_another_width_are_refused() -> None:
    for layer_class in (EncoderLayer, DecoderLayer):
        message = f"{layer_class.__name__} takes .* d_model=6. Received: shape .*7"
        with pytest.raises(UserError, match=message):
            layer_class(OPTIONS).build((None, None, 7))
