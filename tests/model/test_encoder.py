"""Encoder against NumPy, sentence by sentence."""

import numpy as np
import pytest

from t2t_keras.model.encoder import Encoder
from tests.model.copy_weights import copy_encoder_layer
from tests.model.recorded_keys import record_keys
from tests.reference import transformer_np
from tests.reference.weights_np import Sizes, random_encoder_layer

B, S, D, F, H, K, U = 3, 5, 8, 11, 2, 6, 7
SIZES = Sizes(d_model=D, d_ff=F, num_heads=H, d_k=K, d_v=U)


@pytest.mark.parametrize("num_layers", [1, 3])
def test_a_stack_is_layer_upon_layer(num_layers: int) -> None:
    rng = np.random.default_rng(num_layers)
    encoder = Encoder(num_layers, H, K, U, F, 0.1)
    encoder.build((B, S, D))
    weights = [random_encoder_layer(rng, SIZES) for _ in range(num_layers)]
    for layer, layer_weights in zip(encoder.layers, weights, strict=True):
        copy_encoder_layer(layer, layer_weights)
    hidden, mask = rng.normal(size=(B, S, D)), rng.random((B, S, S)) < 0.6
    mask |= np.eye(S, dtype=bool)
    actual = encoder(hidden.astype("f"), attention_mask=mask)
    for b in range(B):
        expected_SD = hidden[b]
        for layer_weights in weights:
            expected_SD = transformer_np.encoder_layer(
                expected_SD, layer_weights, mask[b]
            )
        np.testing.assert_allclose(actual[b], expected_SD, atol=2e-5)


def test_each_layer_and_sub_layer_drops_its_own() -> None:
    encoder = Encoder(2, H, K, U, F, 0.5)
    with record_keys() as keys:
        encoder(np.ones((B, S, D), "f"), dropout_keys=np.arange(B, dtype="uint32"))
    assert len(keys) == 2 * 2 * B
    assert len(set(keys)) == len(keys)


def test_each_query_of_each_head_drops_its_own() -> None:
    encoder = Encoder(2, H, K, U, F, 0.5, attention_dropout_rate=0.5)
    with record_keys() as keys:
        encoder(np.ones((B, S, D), "f"), dropout_keys=np.arange(B, dtype="uint32"))
    assert len(keys) == 2 * (2 + H * S) * B
    assert len(set(keys)) == len(keys)
