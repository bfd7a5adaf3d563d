"""Checks of `check_layer` for every layer of the package."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import t2t_keras.model
from t2t_keras.model.attention import MultiHeadAttention
from t2t_keras.model.decoder import Decoder, DecoderLayer
from t2t_keras.model.dropout import AttentionDropout, Dropout
from t2t_keras.model.embedding import (
    LearnedPositionEncoding,
    SharedEmbedding,
    SinusoidalPositionEncoding,
)
from t2t_keras.model.encoder import Encoder, EncoderLayer
from t2t_keras.model.layers import FeedForward, ResidualNorm
from t2t_keras.model.neighborhood_attention import NeighborhoodAttention
from t2t_keras.settings.model_config import LayerOptions
from tests.model.check_layer import check_layer
from tests.model.layer_case import Case

# Pairwise different: B rows, T and S positions, width D, inner F, heads H, per head
# K and U.
B, T, S, D, F, H, K, U = 4, 5, 9, 6, 11, 3, 7, 2
KEYS = np.array([0, 1, 2**31, 2**32 - 2], "uint32")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


def mask(length: int) -> np.ndarray:
    """Mask with a row that hides nothing, one that shows one position, two between."""
    shown = np.array([length, 1, length // 2, length - 1])
    return (np.arange(length) < shown[:, None])[:, None]


def layer_maker(layer_class: type) -> Callable[..., Any]:
    """Returns a function that makes a layer from its options by name."""
    return lambda dtype=None, **options: layer_class(
        LayerOptions(**options), dtype=dtype
    )


def stack_maker(stack_class: type, layer_class: type) -> Callable[..., Any]:
    """Returns a function that makes a stack of one layer from its options by name."""

    def make(dtype: str | None = None, **options: Any) -> Any:
        layer = layer_class(LayerOptions(**options), name="layer_0", dtype=dtype)
        pre = options.get("normalization") == "pre"
        norm = layer.make_norm(name="norm", dtype=dtype) if pre else None
        return stack_class([layer], norm, dtype=dtype)

    return make


def make_residual(epsilon: float, dtype: str | None = None, **config: Any) -> Any:
    norm = keras.layers.LayerNormalization(epsilon=epsilon, name="norm", dtype=dtype)
    return ResidualNorm(norm, dtype=dtype, **config)


def cases() -> tuple[Case, ...]:
    return *part_cases(), *stack_cases()


def part_cases() -> tuple[Case, ...]:
    heads = {"num_heads": H, "d_k": K, "d_v": U}
    attended = {
        "queries": normal(B, T, D),
        "memory": normal(B, S, D),
        "attention_mask": mask(S),
        "dropout_keys": KEYS,
    }
    weights = {"inputs": normal(B, H, T, S), "dropout_keys": KEYS}
    residual = {
        "inputs": normal(B, T, D),
        "sublayer_outputs": normal(B, T + 1, D)[:, 1:],
        "dropout_keys": KEYS,
    }
    inputs = {"inputs": normal(B, T, D)}
    dropped = {**inputs, "dropout_keys": KEYS}
    embedded = {"embeddings": normal(B, T, D)}
    # Every id of the vocabulary except 0 occurs, so that each row has a gradient.
    tokens = {"tokens": np.arange(B * T, dtype="int32").reshape(B, T) % 13}
    neighbors = {
        "queries": normal(B, T, D),
        "attention_mask": mask(T),
        "dropout_keys": KEYS,
    }
    return (
        Case(
            MultiHeadAttention,
            {**heads, "dropout_rate": 0.2},
            attended,
            {"attention_mask": "memory"},
            compiled=False,
        ),
        Case(AttentionDropout, {"dropout_rate": 0.3}, weights),
        Case(
            NeighborhoodAttention,
            # Wide enough that only the mask hides a position from all others.
            {**heads, "neighborhood": 2 * T - 1, "dropout_rate": 0.5},
            neighbors,
            {"attention_mask": "queries"},
        ),
        Case(FeedForward, {"d_ff": F}, inputs),
        Case(FeedForward, {"d_ff": F, "activation": "gelu"}, inputs),
        Case(Dropout, {"dropout_rate": 0.3}, dropped),
        Case(
            ResidualNorm,
            {"dropout_rate": 0.3, "epsilon": 1e-3},
            residual,
            make_layer=make_residual,
        ),
        Case(SharedEmbedding, {"vocabulary_size": 13, "d_model": D}, tokens),
        Case(SinusoidalPositionEncoding, {"max_wavelength": 50.0}, embedded),
        Case(LearnedPositionEncoding, {"max_length": T}, embedded),
    )


def stack_cases() -> Iterator[Case]:
    heads = {"num_heads": H, "d_k": K, "d_v": U}
    rates = {"dropout_rate": 0.3, "attention_dropout_rate": 0.2}
    layer = {**heads, "d_model": D, "d_ff": F, **rates}
    options = {
        "attention_bias": True,
        "activation": "swish",
        "normalization": "pre",
        "layer_norm_epsilon": 1e-3,
    }
    near = {**layer, "encoder_neighborhood": 2 * T - 1}
    encoded = {
        "hidden": normal(B, T, D),
        "dropout_keys": KEYS,
        "attention_mask": mask(T),
    }
    decoded = {**encoded, "memory": normal(B, S, D), "memory_mask": mask(S)}
    self_hides = {"attention_mask": "hidden"}
    both_hide = {**self_hides, "memory_mask": "memory"}
    decode = layer_maker(DecoderLayer)
    yield Case(DecoderLayer, layer, decoded, both_hide, make_layer=decode)
    # The decoder layer has the same sub-layers; the tests of the Transformer compile
    # the stacks.
    for config in (layer, near):
        yield Case(
            EncoderLayer, config, encoded, self_hides, False, layer_maker(EncoderLayer)
        )
    encode = stack_maker(Encoder, EncoderLayer)
    decode = stack_maker(Decoder, DecoderLayer)
    for config in (layer, {**layer, **options}):
        yield Case(Encoder, config, encoded, self_hides, False, encode)
        yield Case(Decoder, config, decoded, both_hide, False, decode)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.layer_class.__name__)
def test_layer(case: Case) -> None:
    check_layer(case, np.random.default_rng(3))


def test_the_table_has_every_layer() -> None:
    defined = set()
    for module in pkgutil.iter_modules(t2t_keras.model.__path__):
        name = f"t2t_keras.model.{module.name}"
        for _, item in inspect.getmembers(
            importlib.import_module(name), inspect.isclass
        ):
            is_layer = issubclass(item, keras.layers.Layer)
            is_model = issubclass(item, keras.Model)
            # Without a call it is a base class.
            is_base = "call" not in vars(item)
            if is_layer and not (is_model or is_base) and item.__module__ == name:
                defined.add(item)
    assert {case.layer_class for case in cases()} == defined
