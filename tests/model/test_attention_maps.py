"""Attention maps: equal to the weights of the model's call; pictures of them."""

from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model import attention as attention_module
from t2t_keras.model.attention_maps import (
    CELL,
    GAP,
    ROW,
    attention_maps,
    picture,
)
from t2t_keras.model.transformer import Transformer
from tests.model.copy_weights import randomize

H = 3
SOURCE = np.array([[5, 6, 7, 1], [9, 1, 0, 0]])
TARGET = np.array([[0, 4, 8, 3, 2], [0, 7, 0, 0, 0]])


def build(neighborhood: int | None = None, **changed: Any) -> Transformer:
    model = Transformer(
        11,
        num_layers=2,
        d_model=6,
        d_ff=9,
        num_heads=H,
        d_k=4,
        d_v=5,
        dropout_rate=0.5,
        encoder_neighborhood=neighborhood,
        **changed,
    )
    model.build()
    return model


OTHER = MappingProxyType(
    {
        "normalization": "pre",
        "attention_bias": True,
        "first_position": 4,
        "decoder_start": 5,
        "encoder_layers": 1,
        "decoder_layers": 3,
    }
)


@pytest.mark.parametrize(
    ("neighborhood", "changed"), [(None, {}), (3, {}), (None, OTHER)]
)
def test_maps_are_the_weights_of_the_models_own_call(
    monkeypatch, neighborhood, changed
) -> None:
    model = build(neighborhood, **changed)
    randomize(model, np.random.default_rng(4))
    recorded = []
    weights = attention_module.attention_weights

    def record(*arguments):
        recorded.append(np.asarray(weights(*arguments)))
        return tf.constant(recorded[-1])

    monkeypatch.setattr(attention_module, "attention_weights", record)
    model({"encoder_input_tokens": SOURCE, "decoder_input_tokens": TARGET})
    # All encoder layers, then self and cross of each decoder layer.
    encoders, decoders = (changed.get(f"{c}coder_layers", 2) for c in ("en", "de"))
    assert len(recorded) == encoders + 2 * decoders
    cross = recorded[encoders:]
    own = [np.stack(maps, 1) for maps in (recorded[:encoders], cross[::2], cross[1::2])]
    maps = attention_maps(model, tf.constant(SOURCE), tf.constant(TARGET))
    for actual, expected in zip(maps, own, strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-6)
    shapes = [tuple(part.shape) for part in maps]
    layers = [encoders, decoders, decoders]
    sizes = zip(layers, [(4, 4), (5, 5), (5, 4)], strict=True)
    assert shapes == [(2, number, H, *size) for number, size in sizes]


def test_they_add_up_to_one_over_what_may_be_seen() -> None:
    maps = attention_maps(build(), tf.constant(SOURCE), tf.constant(TARGET))
    for part in maps:
        np.testing.assert_allclose(np.asarray(part).sum(-1), 1.0, atol=1e-5)
    assert np.all(np.triu(np.asarray(maps.decoder)[0, :, 1], k=1) == 0.0)
    for part in (maps.encoder, maps.memory):
        assert np.all(np.asarray(part)[1, ..., 2:] == 0.0)


def test_a_picture_has_a_square_for_each_weight() -> None:
    heads, queries, keys = ROW + 1, 2, 3
    weights = np.random.default_rng(3).random((heads, queries, keys))
    weights[0, 0] = [0.0, 1.0, 0.25]
    pixels = picture(weights)
    height, width = queries * CELL, keys * CELL
    # The last head is in a second row.
    assert pixels.shape == (2 * height + GAP, ROW * width + (ROW - 1) * GAP, 1)
    assert pixels.dtype == np.uint8
    assert [pixels[0, x * CELL, 0] for x in range(3)] == [255, 0, 191]
    for head in range(heads):
        top = head // ROW * (height + GAP)
        left = head % ROW * (width + GAP)
        for query in range(queries):
            for key in range(keys):
                square = pixels[
                    top + query * CELL : top + (query + 1) * CELL,
                    left + key * CELL : left + (key + 1) * CELL,
                ]
                gray = 255 * (1 - weights[head, query, key])
                assert np.ptp(square) == 0
                assert abs(int(square[0, 0, 0]) - gray) <= 0.5
    assert np.all(pixels[height : height + GAP] == 128)
