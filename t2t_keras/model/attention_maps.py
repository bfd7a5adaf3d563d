"""Attention weights of all layers and heads, and pictures of them for TensorBoard.

The model's own call returns no attention weights. This module computes them again,
from the same layers, for a few sentences.

Shapes: B batch, S source length, T target length, R layers of a stack, H heads,
Q queries, C keys.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from keras import ops

from t2t_keras.model.masks import causal_mask, padding_mask
from t2t_keras.model.transformer import Transformer
from t2t_keras.typing import Tensor

# Pixels of a weight, and between two heads; heads in a row.
CELL = 10
GAP = 8
ROW = 4


class AttentionMaps(NamedTuple):
    """Attention weights of all layers, first to last.

    The sum for each query is 1, or 0 if it may attend to no key.

    Attributes:
        encoder: [B, R, H, S, S] float32.
        decoder: [B, R, H, T, T] float32.
        memory: [B, R, H, T, S] float32, cross-attention to the encoder's output.
    """

    encoder: Tensor
    decoder: Tensor
    memory: Tensor


def attention_maps(
    model: Transformer, source: Tensor, decoder_input: Tensor
) -> AttentionMaps:
    """Returns the attention weights of all layers, without dropout.

    Args:
        model: Built.
        source: [B, S] int, padded with 0.
        decoder_input: [B, T] int, the target shifted right by one.
    """
    source = model.visible_source(source)
    encoder_mask = padding_mask(source)
    encoder = []
    hidden_BSD = model.position_encoding(model.source_embedding(source))
    for layer in model.encoder.layers:
        inputs_BSD = layer.attention_residual.sublayer_inputs(hidden_BSD)
        encoder.append(layer.attention.compute_weights(inputs_BSD, None, encoder_mask))
        hidden_BSD = layer(hidden_BSD, attention_mask=encoder_mask)

    memory_BSD = model.encoder.normalize(hidden_BSD)
    memory_mask = padding_mask(source)
    causal = causal_mask(ops.shape(decoder_input)[1])
    decoder, memory = [], []
    decoder_input = model.insert_start(decoder_input, None)
    hidden_BTD = model.position_encoding(model.embedding(decoder_input))
    for layer in model.decoder.layers:
        inputs_BTD = layer.attention_residual.sublayer_inputs(hidden_BTD)
        decoder.append(layer.attention.compute_weights(inputs_BTD, None, causal))
        attended_BTD = layer.attention(inputs_BTD, attention_mask=causal)
        queries_BTD = layer.cross_residual.sublayer_inputs(
            layer.attention_residual(hidden_BTD, attended_BTD)
        )
        memory.append(
            layer.cross_attention.compute_weights(queries_BTD, memory_BSD, memory_mask)
        )
        hidden_BTD = layer(
            hidden_BTD, memory_BSD, attention_mask=causal, memory_mask=memory_mask
        )
    maps = (encoder, decoder, memory)
    return AttentionMaps(*(ops.stack(layers, axis=1) for layers in maps))


def picture(weights_HQC: np.ndarray) -> np.ndarray:
    """Returns an image of the heads, `ROW` in a row: larger weights are darker.

    Args:
        weights_HQC: [H, Q, C] float in [0, 1].

    Returns:
        [height, width, 1] uint8: each weight is a square of `CELL` pixels, queries
        from top to bottom and keys from left to right.
    """
    gray = np.round(255 * (1 - np.clip(weights_HQC, 0, 1))).astype(np.uint8)
    gray = gray.repeat(CELL, axis=1).repeat(CELL, axis=2)
    heads, height, width = gray.shape
    rows = -(-heads // ROW)
    row_height, column_width = height + GAP, width + GAP
    canvas = np.full(
        (rows * row_height - GAP, min(ROW, heads) * column_width - GAP), 128, np.uint8
    )
    for number, head in enumerate(gray):
        top, left = number // ROW * row_height, number % ROW * column_width
        canvas[top : top + height, left : left + width] = head
    return canvas[:, :, None]


def legend(source: Sequence[str], target: Sequence[str]) -> str:
    """Returns a Markdown table of the tokens of each row and column.

    Args:
        source: Pieces of the source sentence, in order.
        target: Pieces of the target; row t of a picture predicts the t-th of them.
    """
    rows = max(len(source), len(target))
    padded = [[*side, *[""] * (rows - len(side))] for side in (source, target)]
    lines = [
        f"| {number} | {_cell(left)} | {_cell(right)} |"
        for number, (left, right) in enumerate(zip(*padded, strict=True), start=1)
    ]
    return "\n".join(["| | source | target |", "| --- | --- | --- |", *lines])


def _cell(piece: str) -> str:
    """Returns a piece as Markdown that shows it as it is."""
    return f"`{piece.replace('|', '¦').replace('`', chr(39))}`" if piece else ""
