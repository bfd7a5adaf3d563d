"""Transformer with RMSNorm and SwiGLU in float64 NumPy, from the formulas.

RMSNorm: Zhang and Sennrich 2019, equation 4. SwiGLU: Shazeer 2020, equation 6. The
rest is `transformer_np`, one sentence at a time.

    T target length, S source length, L either, D model width, F inner width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.reference.transformer_np import (
    activate,
    causal_mask,
    embed,
    multi_head_attention,
)
from tests.reference.weights_np import Array, AttentionWeights, Weights


@dataclass(frozen=True)
class GatedLayerWeights:
    """An encoder layer, or a decoder layer, which has cross-attention."""

    self_attention: AttentionWeights
    cross_attention: AttentionWeights | None
    gate: Array  # [D, F]
    inner: Array  # [D, F]
    outer: Array  # [F, D]
    norms: Sequence[Array]  # [D] for each sub-layer, in the order of a layer


@dataclass(frozen=True)
class GatedWeights:
    """The whole model, whose embedding is in `shared`."""

    shared: Weights
    encoder_layers: Sequence[GatedLayerWeights]
    decoder_layers: Sequence[GatedLayerWeights]
    last_norms: tuple[Array, Array] | None  # of encoder and decoder, with pre-norm
    epsilon: float


def rms_norm(x: Array, gain: Array, epsilon: float) -> Array:
    """x over the root of its mean square, times a gain, along the last axis."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * gain


def swiglu(x: Array, weights: GatedLayerWeights) -> Array:
    """(Swish(x W) * x V) W_2."""
    return (activate(x @ weights.gate, "swish") * (x @ weights.inner)) @ weights.outer


def apply_sublayers(
    x: Array,
    sublayers: Sequence[Callable[[Array], Array]],
    norms: Sequence[Array],
    weights: GatedWeights,
) -> Array:
    """[L, D] to [L, D]: post-norm, or pre-norm if there are last norms."""
    for sublayer, gain in zip(sublayers, norms, strict=True):
        if weights.last_norms is None:
            x = rms_norm(x + sublayer(x), gain, weights.epsilon)
        else:
            x = x + sublayer(rms_norm(x, gain, weights.epsilon))
    return x


def transformer(
    source: Sequence[int], decoder_input: Sequence[int], weights: GatedWeights
) -> Array:
    """Padded ids [S] and shifted target [T] to logits [T, V]."""
    visible_S = np.array(source) != 0
    mask_SS = np.tile(visible_S, (len(source), 1))
    mask_TS = np.tile(visible_S, (len(decoder_input), 1))
    mask_TT = causal_mask(len(decoder_input))
    memory_SD = embed(source, weights.shared)
    for layer in weights.encoder_layers:
        own = layer.self_attention
        sublayers = [
            lambda y, own=own: multi_head_attention(y, y, own, mask_SS),
            lambda y, layer=layer: swiglu(y, layer),
        ]
        memory_SD = apply_sublayers(memory_SD, sublayers, layer.norms, weights)
    if weights.last_norms is not None:
        memory_SD = rms_norm(memory_SD, weights.last_norms[0], weights.epsilon)
    x_TD = embed(decoder_input, weights.shared)
    for layer in weights.decoder_layers:
        own, cross = layer.self_attention, layer.cross_attention
        assert cross is not None
        sublayers = [
            lambda y, own=own: multi_head_attention(y, y, own, mask_TT),
            lambda y, cross=cross: multi_head_attention(y, memory_SD, cross, mask_TS),
            lambda y, layer=layer: swiglu(y, layer),
        ]
        x_TD = apply_sublayers(x_TD, sublayers, layer.norms, weights)
    if weights.last_norms is not None:
        x_TD = rms_norm(x_TD, weights.last_norms[1], weights.epsilon)
    return x_TD @ weights.shared.embedding.T
