"""Transformer, loss and learning rate in float64 NumPy, from the paper.

"Attention Is All You Need", arXiv 1706.03762. Everything works on one sentence
at a time, and what the paper masks to minus infinity is simply left out: illegal
keys are removed from the softmax, not hidden in it. There is no dropout, so this
is the model of evaluation. Where the paper is silent: LayerNorm epsilon is 1e-6,
attention has no biases, a query without a legal key gets a zero vector, id 0 is
padding and embeds to the zero vector, and the decoder starts from that vector.
`Options` of the weights select what other programs do instead.

    T queries or target length, S keys or source length, L either, D model width,
    F inner width, H heads, K size per head of queries and keys, U of values,
    V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tests.reference.weights_np import (
    Array,
    AttentionWeights,
    DecoderLayerWeights,
    EncoderLayerWeights,
    FeedForwardWeights,
    LayerNormWeights,
    Options,
    Weights,
)

Mask = NDArray[np.bool_]
Sublayer = tuple[Callable[[Array], Array], LayerNormWeights]

PAD_ID = 0


def sinusoids(length: int, d_model: int) -> Array:
    """Section 3.5: [L, D], sines in the even channels, cosines in the odd ones."""
    if d_model % 2:
        raise ValueError(f"d_model must be even. Received: {d_model}")
    table_LD = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table_LD[position, 2 * i] = np.sin(angle)
            table_LD[position, 2 * i + 1] = np.cos(angle)
    return table_LD


def other_sinusoids(length: int, d_model: int, layout: str) -> Array:
    """[L, D], sines in the first half of the channels, cosines in the second.

    "halves" has the paper's wavelengths; "halves_t2t" those of Tensor2Tensor, from
    2 pi to 10000 * 2 pi, both included.
    """
    half = d_model // 2
    table_LD = np.zeros((length, d_model))
    for position in range(length):
        for i in range(half):
            exponent = i / half if layout == "halves" else i / max(half - 1, 1)
            table_LD[position, i] = np.sin(position / 10000**exponent)
            table_LD[position, half + i] = np.cos(position / 10000**exponent)
    return table_LD


def softmax(values: Array) -> Array:
    """Along the last axis."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def log_softmax(values: Array) -> Array:
    """Along the last axis."""
    shifted = values - values.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def attention_weights(query: Array, key: Array, mask: Mask) -> Array:
    """The softmax of equation 1 for one head: [T, K], [S, K], [T, S] to [T, S]."""
    weights_TS = np.zeros((len(query), len(key)))
    for t, query_K in enumerate(query):
        legal = np.flatnonzero(mask[t])
        if len(legal):
            scores = key[legal] @ query_K / np.sqrt(len(query_K))
            weights_TS[t, legal] = softmax(scores)
    return weights_TS


def attention(query: Array, key: Array, value: Array, mask: Mask) -> Array:
    """Equation 1 for one head: the legal values [S, U] averaged, [T, U]."""
    return attention_weights(query, key, mask) @ value


def multi_head_attention(
    queries: Array, memory: Array, weights: AttentionWeights, mask: Mask
) -> Array:
    """Section 3.2.2: [T, D] attends to [S, D]; mask [T, S], True = may attend."""
    result_TD = np.zeros_like(queries)
    heads = weights.query.shape[1]
    query_bias, key_bias, value_bias = (
        np.broadcast_to(bias, (heads, width))
        for bias, width in (
            (weights.query_bias, weights.query.shape[2]),
            (weights.key_bias, weights.key.shape[2]),
            (weights.value_bias, weights.value.shape[2]),
        )
    )
    for head in range(heads):
        head_TU = attention(
            queries @ weights.query[:, head, :] + query_bias[head],
            memory @ weights.key[:, head, :] + key_bias[head],
            memory @ weights.value[:, head, :] + value_bias[head],
            mask,
        )
        # Concat(head_1 .. head_h) W_O is the sum of each head times its rows of W_O.
        result_TD += head_TU @ weights.output[head]
    return result_TD + weights.output_bias


def activate(x: Array, name: str) -> Array:
    """ReLU; swish of Ramachandran et al. 2017, beta 1; GELU of Hendrycks & Gimpel."""
    if name == "relu":
        return np.maximum(0.0, x)
    if name == "swish":
        return x / (1 + np.exp(-x))
    normal_cdf = np.vectorize(lambda x: (1 + math.erf(x / 2**0.5)) / 2, [float])
    return x * normal_cdf(x)


def ffn(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, activation: str = "relu"
) -> Array:
    """Equation 2."""
    return activate(x @ w1 + b1, activation) @ w2 + b2


def layer_norm(x: Array, gain: Array, bias: Array, epsilon: float = 1e-6) -> Array:
    """Ba et al. 2016, over the last axis, with the variance of a population."""
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered**2).mean(axis=-1, keepdims=True)
    return centered / np.sqrt(variance + epsilon) * gain + bias


def causal_mask(length: int) -> Mask:
    """[L, L]: a position sees itself and what came before (3.2.3)."""
    return np.array([[j <= i for j in range(length)] for i in range(length)], bool)


def neighborhood_mask(length: int, neighborhood: int) -> Mask:
    """[L, L]: restricted self-attention (section 4), |i - j| <= r // 2."""
    reach = neighborhood // 2
    return np.array(
        [[abs(i - j) <= reach for j in range(length)] for i in range(length)], bool
    )


def add_and_norm(
    x: Array, sublayer_output: Array, norm: LayerNormWeights, epsilon: float = 1e-6
) -> Array:
    """LayerNorm(x + Sublayer(x)), section 3.1."""
    return layer_norm(x + sublayer_output, norm.gain, norm.bias, epsilon)


def layer_with_options(
    x: Array, sublayers: Sequence[Sublayer], options: Options
) -> Array:
    """[L, D] to [L, D] by sub-layers, each with its norm, under any options."""
    for sublayer, norm in sublayers:
        if options.normalization == "pre":
            normed = layer_norm(x, norm.gain, norm.bias, options.layer_norm_epsilon)
            x = x + sublayer(normed)
        else:
            x = add_and_norm(x, sublayer(x), norm, options.layer_norm_epsilon)
    return x


def feed_forward_sublayer(inner: FeedForwardWeights, options: Options) -> Callable:
    """Equation 2 as a function of its input."""
    return lambda x: ffn(x, inner.w1, inner.b1, inner.w2, inner.b2, options.activation)


def encoder_layer_with_options(
    x: Array, weights: EncoderLayerWeights, mask: Mask, options: Options
) -> Array:
    """[S, D] to [S, D]; mask [S, S]."""
    own = weights.self_attention
    sublayers = [
        (lambda y: multi_head_attention(y, y, own, mask), weights.self_attention_norm),
        (
            feed_forward_sublayer(weights.feed_forward, options),
            weights.feed_forward_norm,
        ),
    ]
    return layer_with_options(x, sublayers, options)


def decoder_layer_with_options(
    x: Array,
    memory: Array,
    weights: DecoderLayerWeights,
    masks: tuple[Mask, Mask],
    options: Options,
) -> Array:
    """[T, D] and memory [S, D] to [T, D]; masks [T, T] and [T, S]."""
    own, cross = weights.self_attention, weights.cross_attention
    sublayers = [
        (
            lambda y: multi_head_attention(y, y, own, masks[0]),
            weights.self_attention_norm,
        ),
        (
            lambda y: multi_head_attention(y, memory, cross, masks[1]),
            weights.cross_attention_norm,
        ),
        (
            feed_forward_sublayer(weights.feed_forward, options),
            weights.feed_forward_norm,
        ),
    ]
    return layer_with_options(x, sublayers, options)


def final_norm(x: Array, norm: LayerNormWeights | None, options: Options) -> Array:
    """The norm after a stack, which only pre-norm has."""
    if norm is None:
        return x
    return layer_norm(x, norm.gain, norm.bias, options.layer_norm_epsilon)


def encoder_layer(x: Array, weights: EncoderLayerWeights, mask: Mask) -> Array:
    """[S, D] to [S, D]; mask [S, S]."""
    attended = multi_head_attention(x, x, weights.self_attention, mask)
    y = add_and_norm(x, attended, weights.self_attention_norm)
    inner = weights.feed_forward
    transformed = ffn(y, inner.w1, inner.b1, inner.w2, inner.b2)
    return add_and_norm(y, transformed, weights.feed_forward_norm)


def decoder_layer(
    x: Array,
    memory: Array,
    weights: DecoderLayerWeights,
    self_mask: Mask,
    memory_mask: Mask,
) -> Array:
    """[T, D] and memory [S, D] to [T, D]; masks [T, T] and [T, S]."""
    attended = multi_head_attention(x, x, weights.self_attention, self_mask)
    y = add_and_norm(x, attended, weights.self_attention_norm)
    looked_up = multi_head_attention(y, memory, weights.cross_attention, memory_mask)
    z = add_and_norm(y, looked_up, weights.cross_attention_norm)
    inner = weights.feed_forward
    transformed = ffn(z, inner.w1, inner.b1, inner.w2, inner.b2)
    return add_and_norm(z, transformed, weights.feed_forward_norm)


def embed(tokens: Sequence[int], weights: Weights) -> Array:
    """[L] ids to [L, D]: section 3.4's scaled embedding plus 3.5's positions."""
    length, d_model = len(tokens), weights.embedding.shape[1]
    result_LD = np.zeros((length, d_model))
    for position, token in enumerate(tokens):
        if token != PAD_ID:
            result_LD[position] = weights.embedding[token] * np.sqrt(d_model)
    first, layout = weights.options.first_position, weights.options.position_layout
    if weights.positions is not None:
        table = weights.positions
    elif layout == "interleaved":
        table = sinusoids(first + length, d_model)
    else:
        table = other_sinusoids(first + length, d_model, layout)
    return result_LD + table[first : first + length]


def encode(
    source: Sequence[int], weights: Weights, neighborhood: int | None = None
) -> Array:
    """A source without padding, [S] ids, to the memory [S, D]."""
    if PAD_ID in list(source):
        raise ValueError(f"encode takes no padding. Received: {list(source)}")
    return encode_padded(source, weights, neighborhood)


def encode_padded(
    source: Sequence[int], weights: Weights, neighborhood: int | None = None
) -> Array:
    """Like `encode`, but with padding, which nothing attends to.

    Rows of padding are computed like any other, but have no meaning.
    """
    length, source = len(source), visible_source(source, weights)
    mask_SS = np.tile(np.array(source) != PAD_ID, (length, 1))
    if neighborhood is not None:
        mask_SS &= neighborhood_mask(length, neighborhood)
    own = weights.source_embedding
    embedding = weights if own is None else replace(weights, embedding=own)
    x_SD, options = embed(source, embedding), weights.options
    for layer in weights.encoder_layers:
        if options == Options():
            x_SD = encoder_layer(x_SD, layer, mask_SS)
        else:
            x_SD = encoder_layer_with_options(x_SD, layer, mask_SS, options)
    return final_norm(x_SD, weights.encoder_norm, options)


def shift_right(target: Sequence[int]) -> list[int]:
    """The decoder's input: the target one later, the zero vector's id in front."""
    return [PAD_ID, *target][: len(target)]


def visible_source(source: Sequence[int], weights: Weights) -> list[int]:
    """The source as the encoder sees it: perhaps with padding for its end, id 1."""
    hides = not weights.options.source_eos
    return [PAD_ID if hides and token == 1 else token for token in source]


def decode(
    decoder_input: Sequence[int],
    memory: Array,
    weights: Weights,
    source: Sequence[int] | None = None,
    neighborhood: int | None = None,
) -> Array:
    """Shifted target [T] and memory [S, D] to hidden states [T, D].

    `source` says which rows of the memory are padding; without it, none is. The
    target needs no padding mask: its padding follows every real token, and its
    id 0 in front is no padding.
    """
    length = len(decoder_input)
    legal_S = np.ones(len(memory), bool)
    if source is not None:
        legal_S = np.array(visible_source(source, weights)) != PAD_ID
    memory_mask_TS = np.tile(legal_S, (length, 1))
    self_mask_TT = causal_mask(length)
    if neighborhood is not None:
        self_mask_TT &= neighborhood_mask(length, neighborhood)
    options = weights.options
    if length and decoder_input[0] == PAD_ID:
        decoder_input = [options.decoder_start, *decoder_input[1:]]
    x_TD = embed(decoder_input, weights)
    for layer in weights.decoder_layers:
        masks = self_mask_TT, memory_mask_TS
        if options == Options():
            x_TD = decoder_layer(x_TD, memory, layer, *masks)
        else:
            x_TD = decoder_layer_with_options(x_TD, memory, layer, masks, options)
    return final_norm(x_TD, weights.decoder_norm, options)


def logits(hidden: Array, weights: Weights) -> Array:
    """[T, D] to [T, V] by the transposed embedding, id 0's row included."""
    matrix = weights.output_embedding
    matrix = weights.embedding if matrix is None else matrix
    return hidden @ matrix.T + weights.output_bias


def transformer(
    source: Sequence[int],
    decoder_input: Sequence[int],
    weights: Weights,
    neighborhood: int | None = None,
) -> Array:
    """One padded row of a batch, [S] and [T] ids, to logits [T, V]."""
    memory_SD = encode_padded(source, weights, neighborhood)
    hidden_TD = decode(decoder_input, memory_SD, weights, source, neighborhood)
    return logits(hidden_TD, weights)


def label_smoothed_cross_entropy(
    logits: Array, targets: Sequence[int], label_smoothing: float
) -> Array:
    """Section 5.4: the cost in nats of each token, [T], from [T, V] and [T] ids.

    1 - label_smoothing on the true token, the rest evenly over the V - 1 others.
    Padding has a cost too; the caller excludes it from sums.
    """
    vocabulary_size = logits.shape[-1]
    costs = []
    for log_probs_V, true_token in zip(log_softmax(logits), targets, strict=True):
        wanted_V = np.full(vocabulary_size, label_smoothing / (vocabulary_size - 1))
        wanted_V[true_token] = 1 - label_smoothing
        costs.append(-(wanted_V @ log_probs_V))
    return np.array(costs)


def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """Equation 3; the first update is step 1."""
    if step < 1:
        raise ValueError(f"step must be at least 1. Received: {step}")
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
