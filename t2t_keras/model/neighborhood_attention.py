"""Restricted self-attention: each position sees r positions around it (section 4).

Queries are split into blocks of Q positions. A block attends to a window: its own
positions and r // 2 more on either side; a mask limits each query to its band. All
blocks of all rows are one batch of small attentions, so time and memory are O(r n d),
without any tensor of size n x n. ADR 0023.

Shapes: B batch, S positions, D model width, H heads, K size per head of queries and
keys, U of values; N blocks of Q queries, W keys of a window.
"""

from collections.abc import Callable

import keras
from keras import ops

from t2t_keras.model.attention import (
    MultiHeadAttention,
    dot_product_attention,
    swap_heads,
    transpose_keys,
)
from t2t_keras.model.dropout import fold_in
from t2t_keras.model.masks import neighborhood_mask, segment_mask
from t2t_keras.typing import Tensor

# Products of fewer rows are limited by memory bandwidth.
SMALLEST_BLOCK = 32


def neighborhood_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    neighborhood: int,
    segments: Tensor,
    drop: Callable[[Tensor], Tensor] = lambda weights_BHQW: weights_BHQW,
) -> Tensor:
    """Returns `dot_product_attention` under the masks of band and segments.

    Positions come before heads here, because blocks are slices of positions.

    Args:
        queries: [B, S, H, K] float.
        keys: [B, S, H, K] float.
        values: [B, S, H, U] float.
        neighborhood: r, odd.
        segments: [B, S] int. A query may attend to keys with its own number; 0 is
            padding, which no query attends to.
        drop: Takes the weights [B N, H, Q, W] and returns those to sum values with.

    Returns:
        [B, S, H, U] in the dtype of `values`.
    """
    batch, length = ops.shape(queries)[:2]
    block, halo = _block_and_halo(length, neighborhood)
    blocks = -(-length // block)

    def split_blocks(parts: Tensor) -> Tensor:
        padded = _pad(parts, 0, blocks * block - length)
        return ops.reshape(padded, (batch * blocks, block, *parts.shape[2:]))

    def gather_windows(parts: Tensor) -> Tensor:
        # A block shifted left by a halo, then the beginning of the next block, which
        # holds the positions to the right.
        padded = _pad(parts, halo, (blocks + 1) * block - halo - length)
        shape = batch, blocks + 1, block, *parts.shape[2:]
        split = ops.reshape(padded, shape)
        window = ops.concatenate([split[:, :-1], split[:, 1:, : 2 * halo]], axis=2)
        shape = batch * blocks, block + 2 * halo, *parts.shape[2:]
        return ops.reshape(window, shape)

    same = segment_mask(split_blocks(segments), gather_windows(segments))
    attended = dot_product_attention(
        swap_heads(split_blocks(queries)),
        transpose_keys(gather_windows(keys)),
        swap_heads(gather_windows(values)),
        same & _band(block, halo, neighborhood),
        drop,
    )
    shape = batch, blocks * block, *values.shape[2:]
    return ops.reshape(swap_heads(attended), shape)[:, :length]


def _block_and_halo(
    length: Tensor | int, neighborhood: int
) -> tuple[Tensor | int, Tensor | int]:
    """Returns Q, and the number of keys on either side of a block in its window.

    A sentence that fits one block is a single block without further keys.
    """
    # A window extends into the next block, and not beyond it.
    block, halo = max(SMALLEST_BLOCK, neighborhood - 1), neighborhood // 2
    if isinstance(length, int):
        return (block, halo) if length > block else (max(1, length), 0)
    longer = length > block
    return ops.where(longer, block, ops.maximum(1, length)), ops.where(longer, halo, 0)


def _band(block: Tensor | int, halo: Tensor | int, neighborhood: int) -> Tensor:
    """Returns [1, Q, W] bool: True where a key is no farther than r // 2."""
    key_W = ops.arange(block + 2 * halo) - halo
    distance_QW = ops.abs(key_W[None, :] - ops.arange(block)[:, None])
    return (distance_QW <= neighborhood // 2)[None]


def _pad(parts: Tensor, before: Tensor | int, after: Tensor | int) -> Tensor:
    """Returns [B, before + S + after, ...], padded with zeros."""
    rest = [(0, 0)] * (len(parts.shape) - 2)
    return ops.pad(parts, [(0, 0), (before, after), *rest])


def _block_keys(keys: Tensor | None, number: Tensor | int) -> Tensor | None:
    """Returns [B N] uint32, a dropout key for each block, from keys [B]."""
    if keys is None:
        return None
    blocks = ops.arange(number // ops.shape(keys)[0])
    return ops.reshape(fold_in(ops.reshape(keys, (-1, 1)), blocks), (-1,))


@keras.saving.register_keras_serializable(package="t2t_keras")
class NeighborhoodAttention(MultiHeadAttention):
    """Self-attention in which a position sees the r positions around it.

    It has the weights of `MultiHeadAttention`, and the same output under
    `neighborhood_mask`.

    Args:
        num_heads: h.
        d_k: Size of queries and keys per head.
        d_v: Size of values per head.
        neighborhood: r, odd.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        queries: [B, S, D] float.
        memory: None, as it is self-attention.
        attention_mask: [B, 1, S], bool or int: a position may attend to positions with
            its own number, and none may attend to 0 or False.
        dropout_keys: [B] uint32, one key per row, or None to drop nothing.

    Returns:
        [B, S, D].

    Raises:
        ValueError: If r is not a positive odd number, or there is a memory.
    """

    def __init__(self, num_heads: int, d_k: int, d_v: int, neighborhood: int, **kwargs):
        super().__init__(num_heads, d_k, d_v, **kwargs)
        neighborhood_mask(1, neighborhood)  # raises if it has no center
        self.neighborhood = neighborhood

    def call(self, queries, memory=None, attention_mask=None, dropout_keys=None):
        if memory is not None:
            raise ValueError(
                "A neighborhood is one of the queries' own sequence: memory must be "
                f"None. Received: memory of shape {memory.shape}"
            )
        segments = self._segments(queries, attention_mask)
        queries, keys, values = self._project(queries, None)

        def drop(weights_BHQW):
            keys_B = _block_keys(dropout_keys, ops.shape(weights_BHQW)[0])
            return self.dropout(weights_BHQW, dropout_keys=keys_B)

        return self._join_heads(
            neighborhood_attention(
                queries, keys, values, self.neighborhood, segments, drop
            )
        )

    def compute_weights(
        self, queries: Tensor, memory: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        """Returns the weights [B, H, S, S] float32, mostly 0, for visualization."""
        segments = self._segments(queries, mask)
        band = neighborhood_mask(ops.shape(queries)[1], self.neighborhood)
        mask = segment_mask(segments, segments) & band
        return super().compute_weights(queries, memory, mask)

    def _segments(self, queries: Tensor, mask: Tensor | None) -> Tensor:
        """Returns [B, S] int32 of a mask [B, 1, S]."""
        if mask is None:
            return ops.ones(ops.shape(queries)[:2], "int32")
        return ops.cast(ops.squeeze(mask, axis=1), "int32")

    def get_config(self):
        return {**super().get_config(), "neighborhood": self.neighborhood}
