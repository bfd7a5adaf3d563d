"""Weights of the Transformer as named arrays, and random weights for tests.

D model width, F inner width, H heads, K size per head of queries and keys,
U of values, V vocabulary, L the longest length with a learned position.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AttentionWeights:
    """The projections of section 3.2.2, with the heads side by side."""

    query: Array  # [D, H, K]
    key: Array  # [D, H, K]
    value: Array  # [D, H, U]
    output: Array  # [H, U, D]
    query_bias: Array | float = 0.0  # [H, K]
    key_bias: Array | float = 0.0  # [H, K]
    value_bias: Array | float = 0.0  # [H, U]
    output_bias: Array | float = 0.0  # [D]


@dataclass(frozen=True)
class FeedForwardWeights:
    """W1, b1, W2, b2 of equation 2."""

    w1: Array  # [D, F]
    b1: Array  # [F]
    w2: Array  # [F, D]
    b2: Array  # [D]


@dataclass(frozen=True)
class LayerNormWeights:
    """Gain and bias, [D] each."""

    gain: Array
    bias: Array


@dataclass(frozen=True)
class EncoderLayerWeights:
    """Two sub-layers; each norm belongs to the sub-layer named before it."""

    self_attention: AttentionWeights
    self_attention_norm: LayerNormWeights
    feed_forward: FeedForwardWeights
    feed_forward_norm: LayerNormWeights


@dataclass(frozen=True)
class DecoderLayerWeights:
    """Three sub-layers; each norm belongs to the sub-layer named before it."""

    self_attention: AttentionWeights
    self_attention_norm: LayerNormWeights
    cross_attention: AttentionWeights
    cross_attention_norm: LayerNormWeights
    feed_forward: FeedForwardWeights
    feed_forward_norm: LayerNormWeights


@dataclass(frozen=True)
class Options:
    """Choices beyond the paper; the defaults are those of its authors' code.

    decoder_start is an id, 0 for the zero vector; the names are those of flags.
    """

    normalization: str = "post"
    activation: str = "relu"
    layer_norm_epsilon: float = 1e-6
    position_layout: str = "interleaved"
    first_position: int = 0
    decoder_start: int = 0
    attention_bias: bool = False
    output_bias: bool = False
    tie_output: bool = True
    share_embeddings: bool = True
    source_eos: bool = True


@dataclass(frozen=True)
class Weights:
    """The whole model; one embedding serves both sides and the softmax (3.4)."""

    embedding: Array  # [V, D]
    encoder_layers: Sequence[EncoderLayerWeights]
    decoder_layers: Sequence[DecoderLayerWeights]
    positions: Array | None = None  # [at least L, D] if learned, else sinusoids
    options: Options = Options()
    output_embedding: Array | None = None  # [V, D] if it is not the embedding
    output_bias: Array | float = 0.0  # [V]
    source_embedding: Array | None = None  # [V, D] if it is not the embedding
    encoder_norm: LayerNormWeights | None = None  # after the stack, with pre-norm
    decoder_norm: LayerNormWeights | None = None


@dataclass(frozen=True)
class Sizes:
    """Sizes of section 3; all different, so that every mix-up of axes fails."""

    vocabulary_size: int = 13
    d_model: int = 6
    d_ff: int = 11
    num_heads: int = 2
    d_k: int = 5
    d_v: int = 3
    num_encoder_layers: int = 2
    num_decoder_layers: int = 3


def random_attention(rng: np.random.Generator, sizes: Sizes) -> AttentionWeights:
    """Draws projections that keep the scale of what they are applied to."""
    to_query = (sizes.d_model, sizes.num_heads, sizes.d_k)
    to_value = (sizes.d_model, sizes.num_heads, sizes.d_v)
    to_output = (sizes.num_heads, sizes.d_v, sizes.d_model)
    scale = sizes.d_model**-0.5
    return AttentionWeights(
        query=rng.normal(scale=scale, size=to_query),
        key=rng.normal(scale=scale, size=to_query),
        value=rng.normal(scale=scale, size=to_value),
        output=rng.normal(scale=(sizes.num_heads * sizes.d_v) ** -0.5, size=to_output),
    )


def random_feed_forward(rng: np.random.Generator, sizes: Sizes) -> FeedForwardWeights:
    """Draws kernels and biases, none of them zero."""
    d_model, d_ff = sizes.d_model, sizes.d_ff
    return FeedForwardWeights(
        w1=rng.normal(scale=d_model**-0.5, size=(d_model, d_ff)),
        b1=rng.normal(scale=0.5, size=d_ff),
        w2=rng.normal(scale=d_ff**-0.5, size=(d_ff, d_model)),
        b2=rng.normal(scale=0.5, size=d_model),
    )


def random_norm(rng: np.random.Generator, sizes: Sizes) -> LayerNormWeights:
    """Draws gains about one and biases about zero, none of them one or zero."""
    return LayerNormWeights(
        gain=rng.uniform(0.5, 1.5, size=sizes.d_model),
        bias=rng.normal(scale=0.5, size=sizes.d_model),
    )


def random_encoder_layer(rng: np.random.Generator, sizes: Sizes) -> EncoderLayerWeights:
    """Draws one encoder layer."""
    return EncoderLayerWeights(
        self_attention=random_attention(rng, sizes),
        self_attention_norm=random_norm(rng, sizes),
        feed_forward=random_feed_forward(rng, sizes),
        feed_forward_norm=random_norm(rng, sizes),
    )


def random_decoder_layer(rng: np.random.Generator, sizes: Sizes) -> DecoderLayerWeights:
    """Draws one decoder layer."""
    return DecoderLayerWeights(
        self_attention=random_attention(rng, sizes),
        self_attention_norm=random_norm(rng, sizes),
        cross_attention=random_attention(rng, sizes),
        cross_attention_norm=random_norm(rng, sizes),
        feed_forward=random_feed_forward(rng, sizes),
        feed_forward_norm=random_norm(rng, sizes),
    )


def random_weights(
    rng: np.random.Generator,
    sizes: Sizes | None = None,
    max_learned_length: int | None = None,
    options: Options | None = None,
) -> Weights:
    """Draws a whole model; with learned positions if a longest length is given.

    The weights that options do not concern are the same with and without them.

    The embedding row of padding is not zero, so that using it by mistake shows.
    """
    sizes = sizes or Sizes()
    shape = (sizes.vocabulary_size, sizes.d_model)
    positions = None
    if max_learned_length is not None:
        positions = rng.normal(size=(max_learned_length, sizes.d_model))
    weights = Weights(
        embedding=rng.normal(scale=sizes.d_model**-0.5, size=shape),
        encoder_layers=[
            random_encoder_layer(rng, sizes) for _ in range(sizes.num_encoder_layers)
        ],
        decoder_layers=[
            random_decoder_layer(rng, sizes) for _ in range(sizes.num_decoder_layers)
        ],
        positions=positions,
    )
    return weights if options is None else _with_options(rng, sizes, weights, options)


def _with_options(
    rng: np.random.Generator, sizes: Sizes, weights: Weights, options: Options
) -> Weights:
    """Draws the further weights of options, none of them zero."""
    layers = [*weights.encoder_layers, *weights.decoder_layers]
    if options.attention_bias:
        layers = [_with_attention_biases(rng, sizes, layer) for layer in layers]
    more: dict[str, Any] = {}
    if not options.tie_output:
        shape = weights.embedding.shape
        more["output_embedding"] = rng.normal(scale=sizes.d_model**-0.5, size=shape)
    if not options.share_embeddings:
        shape = weights.embedding.shape
        more["source_embedding"] = rng.normal(scale=sizes.d_model**-0.5, size=shape)
    if options.output_bias:
        more["output_bias"] = rng.normal(size=sizes.vocabulary_size)
    if options.normalization == "pre":
        more["encoder_norm"] = random_norm(rng, sizes)
        more["decoder_norm"] = random_norm(rng, sizes)
    count = len(weights.encoder_layers)
    return replace(
        weights,
        encoder_layers=layers[:count],
        decoder_layers=layers[count:],
        options=options,
        **more,
    )


def _with_attention_biases(rng: np.random.Generator, sizes: Sizes, layer: Any) -> Any:
    changed = {}
    for name in ("self_attention", "cross_attention"):
        if hasattr(layer, name):
            changed[name] = replace(
                getattr(layer, name),
                query_bias=rng.normal(size=(sizes.num_heads, sizes.d_k)),
                key_bias=rng.normal(size=(sizes.num_heads, sizes.d_k)),
                value_bias=rng.normal(size=(sizes.num_heads, sizes.d_v)),
                output_bias=rng.normal(size=sizes.d_model),
            )
    return replace(layer, **changed)
