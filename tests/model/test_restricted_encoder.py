"""Restricted encoder on sentences of several blocks, against NumPy and a mask."""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model.masks import neighborhood_mask, padding_mask
from t2t_keras.model.neighborhood_attention import SMALLEST_BLOCK
from t2t_keras.model.transformer import Transformer
from tests.model.small_model import random_tokens, shared_model, small_weights
from tests.reference import transformer_np

S = 2 * SMALLEST_BLOCK + 11
LENGTHS = (S, 0, SMALLEST_BLOCK + 1, 3)
NEIGHBORHOOD = 5
TOLERANCE = 5e-5


@pytest.fixture(scope="module")
def model() -> Transformer:
    return shared_model(encoder_neighborhood=NEIGHBORHOOD)


def source() -> np.ndarray:
    return random_tokens(np.random.default_rng(41), LENGTHS, S)


def reference(tokens: np.ndarray, neighborhood: int = NEIGHBORHOOD) -> np.ndarray:
    return transformer_np.encode(tokens, small_weights(), neighborhood)


def test_a_long_sentence_is_encoded_as_in_numpy(model) -> None:
    """Under XLA, in a trace of any shape."""
    spec = [tf.TensorSpec([None, None], tf.int32)]
    encode = tf.function(
        model.encode, input_signature=spec, jit_compile=True, autograph=False
    )
    encoded = encode(source()).numpy()
    assert np.isfinite(encoded).all()
    for actual, tokens, length in zip(encoded, source(), LENGTHS, strict=True):
        expected = reference(tokens[:length])
        np.testing.assert_allclose(actual[:length], expected, atol=TOLERANCE)
    other = reference(source()[0], NEIGHBORHOOD + 2)
    assert np.abs(encoded[0] - other).max() > 100 * TOLERANCE


def test_weights_trained_under_a_mask_still_work(model) -> None:
    # Output of an encoder without blocks, with the same weights, mask and positions.
    whole = shared_model()
    mask = padding_mask(source()) & neighborhood_mask(S, NEIGHBORHOOD)
    embedded = whole.position_encoding(whole.embedding(source()))
    expected = whole.encoder(embedded, attention_mask=mask)
    actual = model.encode(source())
    real = source() > 0
    np.testing.assert_allclose(actual[real], expected[real], atol=1e-5)


def test_sentences_of_a_packed_row_are_encoded_alone(model) -> None:
    # The second begins in the first block and ends in the last.
    parts = (20, 50, S - 75, 5)
    tokens = source()[:1]
    segments = np.repeat([1, 2, 3, 0], parts)[None].astype("int32")
    positions = np.concatenate([np.arange(part) for part in parts])[None]
    tokens[segments == 0] = 0
    actual = model.encode(tokens, segments=segments, positions=positions)[0]
    for number in (1, 2, 3):
        own = segments[0] == number
        np.testing.assert_allclose(
            actual[own], reference(tokens[0, own]), atol=TOLERANCE
        )


def test_no_tensor_of_the_encoder_has_all_pairs_of_positions(model) -> None:
    length = 640
    weights = [weight.value for weight in model.encoder.trainable_variables]

    def gradients(tokens, segments, positions):
        with tf.GradientTape() as tape:
            encoded = model.encode(tokens, segments=segments, positions=positions)
            total = tf.reduce_sum(encoded**2)
        return tape.gradient(total, weights)

    spec = tf.TensorSpec([1, length], tf.int32)
    graph = (
        tf.function(gradients, autograph=False)
        .get_concrete_function(spec, spec, spec)
        .graph
    )
    sizes = [
        math.prod(output.shape)
        for operation in graph.get_operations()
        for output in operation.outputs
    ]
    assert 100 * length < max(sizes) < length * length / 2
