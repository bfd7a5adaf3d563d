"""Small model with the weights of the NumPy reference, and a batch for it.

All sizes differ, including d_k, d_v and d_model / h, so that no mix-up stays hidden.
"""

import functools
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
    """Returns a built model of the configuration above with the given weights."""
    model = Transformer(**{**CONFIG, **changed})
    model.build()
    copy_transformer(model, weights)
    return model


@functools.cache
def shared_model(**changed: Any) -> Transformer:
    """Returns a small model with random weights for several tests: do not change it."""
    return small_model(small_weights(changed.get("learned_positions")), **changed)


def small_weights(max_learned_length: int | None = None) -> Weights:
    return random_weights(np.random.default_rng(20), SIZES, max_learned_length)


def small_batch() -> dict[str, np.ndarray]:
    """Batch with a full row, short rows, one of length 1 and one of padding only."""
    rng = np.random.default_rng(21)
    source = random_tokens(rng, SOURCE_LENGTHS, S)
    target = random_tokens(rng, TARGET_LENGTHS, T)
    shifted = np.pad(target, [(0, 0), (1, 0)])[:, :-1]
    return {"encoder_input_tokens": source, "decoder_input_tokens": shifted}


def random_tokens(
    rng: np.random.Generator, lengths: tuple[int, ...], bound: int
) -> np.ndarray:
    tokens = rng.integers(1, V, size=(len(lengths), bound), dtype="int32")
    return tokens * (np.arange(bound) < np.array(lengths)[:, None])


def compute_logits(
    model: Any, batch: dict[str, np.ndarray], **arguments: Any
) -> np.ndarray:
    """Returns the model's logits for a batch as a float32 array."""
    return ops.convert_to_numpy(ops.cast(model(batch, **arguments), "float32"))
