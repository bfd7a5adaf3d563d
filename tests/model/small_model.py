"""A small model with the reference's weights, and a batch that hides nothing.

Sizes are pairwise different, and d_k, d_v and d_model / h are three numbers.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from keras import ops

from t2t_keras.model.transformer import Transformer
from tests.model.copy_weights import copy_transformer
from tests.reference.weights_np import Sizes, Weights, random_weights

V, D, F, H, K, U = 17, 10, 13, 3, 4, 7
S, T = 9, 6
SOURCE_LENGTHS = (S, 4, 1, 0, 6)
TARGET_LENGTHS = (T, 1, 4, 0, 3)
ROWS = len(SOURCE_LENGTHS)
EMPTY_ROW = SOURCE_LENGTHS.index(0)

SIZES = Sizes(V, D, F, H, K, U, num_encoder_layers=2, num_decoder_layers=2)
CONFIG: Mapping[str, Any] = MappingProxyType(
    {
        "vocabulary_size": V,
        "num_layers": 2,
        "d_model": D,
        "d_ff": F,
        "num_heads": H,
        "d_k": K,
        "d_v": U,
    }
)


def small_model(weights: Weights, **changed: Any) -> Transformer:
    """Returns the model of the table above, built, with these weights."""
    model = Transformer(**{**CONFIG, **changed})
    model.build()
    copy_transformer(model, weights)
    return model


def small_weights(max_learned_length: int | None = None) -> Weights:
    return random_weights(np.random.default_rng(20), SIZES, max_learned_length)


def small_batch() -> dict[str, np.ndarray]:
    """A row without padding, short ones, one of length 1, one of padding only."""
    rng = np.random.default_rng(21)
    source = padded(rng, SOURCE_LENGTHS, S)
    target = padded(rng, TARGET_LENGTHS, T)
    shifted = np.pad(target, [(0, 0), (1, 0)])[:, :-1]
    return {"encoder_input_tokens": source, "decoder_input_tokens": shifted}


def padded(
    rng: np.random.Generator, lengths: tuple[int, ...], bound: int
) -> np.ndarray:
    tokens = rng.integers(1, V, size=(len(lengths), bound), dtype="int32")
    return tokens * (np.arange(bound) < np.array(lengths)[:, None])


def answer(model: Any, batch: dict[str, np.ndarray], **arguments: Any) -> np.ndarray:
    """Returns the logits as float32 NumPy."""
    return ops.convert_to_numpy(ops.cast(model(batch, **arguments), "float32"))
