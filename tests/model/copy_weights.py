"""Copies weights of the NumPy reference into built layers."""

import dataclasses
from typing import Any

import numpy as np

from t2t_keras.model.transformer import Transformer
from tests.reference.weights_np import (
    AttentionWeights,
    DecoderLayerWeights,
    EncoderLayerWeights,
    FeedForwardWeights,
    LayerNormWeights,
    Sizes,
    Weights,
)


def copy_attention(layer: Any, weights: AttentionWeights) -> None:
    """Copies projections; the heads are adjacent in the columns of a kernel."""
    width = len(weights.query)
    layer.query_kernel.assign(weights.query.reshape(width, -1))
    layer.key_kernel.assign(weights.key.reshape(width, -1))
    layer.value_kernel.assign(weights.value.reshape(width, -1))
    layer.output_kernel.assign(weights.output.reshape(-1, width))
    if layer.use_bias:
        layer.query_bias.assign(np.ravel(weights.query_bias))
        layer.key_bias.assign(np.ravel(weights.key_bias))
        layer.value_bias.assign(np.ravel(weights.value_bias))
        layer.output_bias.assign(weights.output_bias)


def copy_feed_forward(layer: Any, weights: FeedForwardWeights) -> None:
    layer.inner.kernel.assign(weights.w1)
    layer.inner.bias.assign(weights.b1)
    layer.outer.kernel.assign(weights.w2)
    layer.outer.bias.assign(weights.b2)


def copy_norm(residual: Any, weights: LayerNormWeights) -> None:
    residual.norm.gamma.assign(weights.gain)
    residual.norm.beta.assign(weights.bias)


def copy_encoder_layer(layer: Any, weights: EncoderLayerWeights) -> None:
    copy_attention(layer.attention, weights.self_attention)
    copy_norm(layer.attention_residual, weights.self_attention_norm)
    copy_feed_forward(layer.feed_forward, weights.feed_forward)
    copy_norm(layer.feed_forward_residual, weights.feed_forward_norm)


def copy_decoder_layer(layer: Any, weights: DecoderLayerWeights) -> None:
    copy_attention(layer.attention, weights.self_attention)
    copy_norm(layer.attention_residual, weights.self_attention_norm)
    copy_attention(layer.cross_attention, weights.cross_attention)
    copy_norm(layer.cross_residual, weights.cross_attention_norm)
    copy_feed_forward(layer.feed_forward, weights.feed_forward)
    copy_norm(layer.feed_forward_residual, weights.feed_forward_norm)


def transformer_of(weights: Weights, sizes: Sizes, **changed: Any) -> Transformer:
    """Returns a model of these sizes and the weights' options, with the weights."""
    options = dataclasses.asdict(weights.options)
    options["decoder_start"] = options["decoder_start"] or "zero"
    model = Transformer(
        sizes.vocabulary_size,
        d_model=sizes.d_model,
        d_ff=sizes.d_ff,
        num_heads=sizes.num_heads,
        d_k=sizes.d_k,
        d_v=sizes.d_v,
        encoder_layers=sizes.num_encoder_layers,
        decoder_layers=sizes.num_decoder_layers,
        **{**options, **changed},
    )
    copy_transformer(model, weights)
    return model


def copy_transformer(model: Any, weights: Weights) -> None:
    model.embedding.embeddings.assign(weights.embedding)
    if weights.output_embedding is not None:
        model.embedding.output_matrix.assign(weights.output_embedding)
    if weights.source_embedding is not None:
        model.source_embedding.embeddings.assign(weights.source_embedding)
    if weights.options.output_bias:
        model.embedding.output_bias.assign(weights.output_bias)
    for stack, norm in (
        (model.encoder, weights.encoder_norm),
        (model.decoder, weights.decoder_norm),
    ):
        if norm is not None:
            copy_norm(stack, norm)
    if weights.positions is not None:
        model.position_encoding.positions.assign(weights.positions)
    for layer, layer_weights in zip(
        model.encoder.layers, weights.encoder_layers, strict=True
    ):
        copy_encoder_layer(layer, layer_weights)
    for layer, layer_weights in zip(
        model.decoder.layers, weights.decoder_layers, strict=True
    ):
        copy_decoder_layer(layer, layer_weights)


def randomize(layer: Any, rng: np.random.Generator) -> None:
    """Changes every weight at random, so that no bias is zero and no gain is one."""
    layer.set_weights(
        [weight + rng.normal(scale=0.3, size=weight.shape) for weight in layer.weights]
    )
