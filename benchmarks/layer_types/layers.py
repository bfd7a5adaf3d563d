"""Layer types of the paper's Table 1, at any width, with their FLOPs.

Shapes: B rows, n positions, d width, r neighborhood, k kernel.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t_keras.model.attention import (
    MultiHeadAttention,
    dot_product_attention,
    swap_heads,
    transpose_keys,
)
from t2t_keras.model.neighborhood_attention import (
    SMALLEST_BLOCK,
    NeighborhoodAttention,
    neighborhood_attention,
)

NEIGHBORHOOD = 33
KERNEL = 3
HEAD_WIDTH = 64


@dataclasses.dataclass(frozen=True)
class LayerType:
    """Type of layer that maps n positions to n positions, all of width d.

    Attributes:
        name: Name in tables and plots.
        complexity: Complexity per layer in the paper, which leaves out projections.
        build: Function from a width to the layer, [B, n, d] to [B, n, d].
        flops: Function from n and d to the FLOPs of one row's forward pass; a
            multiplication and an addition count as 2.
    """

    name: str
    complexity: str
    build: Callable[[int], Callable[[Any], Any]]
    flops: Callable[[int, int], float]


def _split_heads(inputs: Any) -> Any:
    """Returns [B, n, heads, width of a head]."""
    batch, length, width = ops.shape(inputs)
    heads = max(1, width // HEAD_WIDTH)
    return ops.reshape(inputs, (batch, length, heads, width // heads))


def _join_heads(parts: Any, inputs: Any) -> Any:
    return ops.reshape(parts, ops.shape(inputs))


class AttentionAlone(keras.layers.Layer):
    """Self-attention without projections (equation 1), as counted in Table 1."""

    def call(self, inputs):
        parts = _split_heads(inputs)
        attended = dot_product_attention(
            swap_heads(parts), transpose_keys(parts), swap_heads(parts), None
        )
        return _join_heads(swap_heads(attended), inputs)


class RestrictedAlone(keras.layers.Layer):
    """Restricted self-attention without projections, in a neighborhood of r."""

    def call(self, inputs):
        parts, segments = _split_heads(inputs), ops.ones(ops.shape(inputs)[:2], "int32")
        attended = neighborhood_attention(parts, parts, parts, NEIGHBORHOOD, segments)
        return _join_heads(attended, inputs)


def _heads(width: int) -> tuple[int, int, int]:
    heads = max(1, width // HEAD_WIDTH)
    return heads, width // heads, width // heads


def _restricted_flops(length: int, width: int) -> float:
    block = max(SMALLEST_BLOCK, NEIGHBORHOOD - 1)
    if length <= block:
        return 4.0 * length * length * width
    blocks = -(-length // block)
    return 4.0 * blocks * block * (block + NEIGHBORHOOD - 1) * width


def layer_types(unrolled: bool = False) -> tuple[LayerType, ...]:
    """Returns the layer types in the order of tables.

    Args:
        unrolled: Whether to unroll the loop of recurrent layers, for counting products.
    """
    return _attentions() + _recurrences(unrolled) + _convolutions()


def _attentions() -> tuple[LayerType, ...]:
    return (
        LayerType(
            "self-attention",
            "n² d",
            lambda _: AttentionAlone(),
            lambda n, d: 4.0 * n * n * d,
        ),
        LayerType(
            "self-attention with projections",
            "n² d",
            lambda d: MultiHeadAttention(*_heads(d)),
            lambda n, d: 4.0 * n * n * d + 8.0 * n * d * d,
        ),
        LayerType(
            f"restricted, r = {NEIGHBORHOOD}",
            "r n d",
            lambda _: RestrictedAlone(),
            _restricted_flops,
        ),
        LayerType(
            f"restricted, r = {NEIGHBORHOOD}, with projections",
            "r n d",
            lambda d: NeighborhoodAttention(*_heads(d), NEIGHBORHOOD),
            lambda n, d: _restricted_flops(n, d) + 8.0 * n * d * d,
        ),
    )


def _recurrences(unrolled: bool) -> tuple[LayerType, ...]:
    settings: dict[str, Any] = {"return_sequences": True, "unroll": unrolled}
    return (
        LayerType(
            "LSTM",
            "n d²",
            lambda d: keras.layers.LSTM(d, **settings),
            lambda n, d: 16.0 * n * d * d,
        ),
        LayerType(
            "GRU",
            "n d²",
            lambda d: keras.layers.GRU(d, **settings),
            lambda n, d: 12.0 * n * d * d,
        ),
    )


def _convolutions() -> tuple[LayerType, ...]:
    name = f"convolution, k = {KERNEL}"
    settings: dict[str, Any] = {"kernel_size": KERNEL, "padding": "same"}

    def flops(n: int, d: int) -> float:
        return 2.0 * KERNEL * n * d * d

    return (
        LayerType(name, "k n d²", lambda d: keras.layers.Conv1D(d, **settings), flops),
        LayerType(
            f"{name}, dilated",
            "k n d²",
            lambda d: keras.layers.Conv1D(d, dilation_rate=KERNEL**2, **settings),
            flops,
        ),
        LayerType(
            f"{name}, separable",
            "k n d + n d²",
            lambda d: keras.layers.SeparableConv1D(d, **settings),
            lambda n, d: 2.0 * KERNEL * n * d + 2.0 * n * d * d,
        ),
    )
