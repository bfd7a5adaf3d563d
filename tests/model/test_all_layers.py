"""Checks of `check_layer` for every layer of the package."""

import importlib
import inspect
import pkgutil

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
        Case(ResidualNorm, {"dropout_rate": 0.3, "epsilon": 1e-3}, residual),
        Case(SharedEmbedding, {"vocabulary_size": 13, "d_model": D}, tokens),
        Case(SinusoidalPositionEncoding, {"max_wavelength": 50.0}, embedded),
        Case(LearnedPositionEncoding, {"max_length": T}, embedded),
    )


def stack_cases() -> tuple[Case, ...]:
    heads = {"num_heads": H, "d_k": K, "d_v": U}
    rates = {"dropout_rate": 0.3, "attention_dropout_rate": 0.2}
    layer = {**heads, "d_ff": F, **rates}
    options = {
        "attention_bias": True,
        "activation": "swish",
        "normalization": "pre",
        "layer_norm_epsilon": 1e-3,
    }
    near = {**layer, "neighborhood": 2 * T - 1}
    encoded = {
        "hidden": normal(B, T, D),
        "dropout_keys": KEYS,
        "attention_mask": mask(T),
    }
    decoded = {**encoded, "memory": normal(B, S, D), "memory_mask": mask(S)}
    self_hides = {"attention_mask": "hidden"}
    both_hide = {**self_hides, "memory_mask": "memory"}
    stack = {**layer, "num_layers": 1}
    return (
        Case(DecoderLayer, layer, decoded, both_hide),
        # The decoder layer has the same sub-layers; the tests of the Transformer
        # compile the stacks.
        Case(EncoderLayer, layer, encoded, self_hides, compiled=False),
        Case(EncoderLayer, near, encoded, self_hides, compiled=False),
        Case(Encoder, stack, encoded, self_hides, compiled=False),
        Case(Encoder, {**stack, **options}, encoded, self_hides, compiled=False),
        Case(Decoder, stack, decoded, both_hide, compiled=False),
        Case(Decoder, {**stack, **options}, decoded, both_hide, compiled=False),
    )


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
            if is_layer and not is_model and item.__module__ == name:
                defined.add(item)
    assert {case.layer_class for case in cases()} == defined
