"""Architectures beyond the paper's: between them, every option in several settings."""

import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.model.transformer import Transformer
from tests.model.copy_weights import copy_transformer
from tests.model.small_model import CONFIG, SIZES
from tests.reference.weights_np import Options, Weights, random_weights

_NO_SIZES: Mapping[str, int] = MappingProxyType({})


class Architecture(NamedTuple):
    """Options of the reference, numbers of layers, and settings without weights."""

    name: str
    options: Options
    layers: tuple[int, int] = (2, 2)
    learned: int | None = None
    neighborhood: int | None = None

    def weights(self) -> Weights:
        """Random weights, the same at each call."""
        encoder, decoder = self.layers
        sizes = dataclasses.replace(
            SIZES, num_encoder_layers=encoder, num_decoder_layers=decoder
        )
        return random_weights(
            np.random.default_rng(23), sizes, self.learned, self.options
        )

    def arguments(self) -> dict[str, Any]:
        """Arguments of `Transformer`."""
        options = dataclasses.asdict(self.options)
        return {
            **CONFIG,
            **options,
            "decoder_start": options["decoder_start"] or "zero",
            "encoder_layers": self.layers[0],
            "decoder_layers": self.layers[1],
            "learned_positions": self.learned,
            "encoder_neighborhood": self.neighborhood,
        }

    @functools.cache  # noqa: B019 - as long as the tests
    def model(self, **changed: Any) -> Transformer:
        """Built model with these weights, for several tests: do not change it."""
        model = Transformer(**{**self.arguments(), **changed})
        model.build()
        copy_transformer(model, self.weights())
        return model


def architectures() -> tuple[Architecture, ...]:
    """Returns all architectures."""
    marian = Options(
        activation="swish",
        layer_norm_epsilon=1e-5,
        position_layout="halves_t2t",
        output_bias=True,
        attention_bias=True,
    )
    deep = Options(
        normalization="pre",
        position_layout="halves",
        first_position=3,
        decoder_start=1,
        tie_output=False,
        share_embeddings=False,
        source_eos=False,
    )
    everything = Options(
        normalization="pre",
        activation="gelu",
        layer_norm_epsilon=1e-2,
        first_position=2,
        decoder_start=5,
        attention_bias=True,
        output_bias=True,
        tie_output=False,
    )
    return (
        Architecture("marian", marian, layers=(2, 1), neighborhood=3),
        Architecture("deep", deep, layers=(3, 1)),
        # As many positions as the longest sentence needs: 11 with the first two.
        Architecture("everything", everything, layers=(1, 2), learned=11),
    )
