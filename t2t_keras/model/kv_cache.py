"""KV cache: keys and values that decoding computes once and reads at every step.

Shapes: B sentences, W beams (hypotheses) of each, X slots, H heads, K size per head of
keys, U of values.
"""

from typing import NamedTuple

import tensorflow as tf
from keras import ops

from t2t_keras.model.embedding import OutputRows
from t2t_keras.typing import Tensor


class KVCache(NamedTuple):
    """Keys and values of one attention layer; a step takes a cache and returns one.

    The keys and values of a token do not change when later tokens follow. So they are
    computed once and cached, and each step of decoding projects new tokens only:
    `DecoderLayer.step` writes them.

    In self-attention, a cache has X slots that all beams of a sentence share. At each
    step beam w writes its newest token to slot `first_slot + w`. It attends to
    `visible_slots` [B, W, X] bool: those that it and its ancestors wrote. The beam
    search keeps these two. No key or value is copied for a beam, or moved when beams
    change places, and the W beams of a sentence are W rows of one product with its
    slots (ADR 0020).

    In cross-attention, the slots are the S positions of the encoder's output. They are
    filled once per sentence, and no step writes to them.

    Attributes:
        keys: [B, H, X, K] float.
        values: [B, H, X, U] float.
    """

    keys: Tensor
    values: Tensor

    @classmethod
    def empty(
        cls,
        batch: int | Tensor,
        num_heads: int,
        slots: int | Tensor,
        d_k: int,
        d_v: int,
        dtype: str,
    ) -> "KVCache":
        """Returns a cache whose slots hold zeros."""
        return cls(
            _empty(batch, num_heads, slots, d_k, dtype),
            _empty(batch, num_heads, slots, d_v, dtype),
        )

    def rows(self, first_slot: Tensor | int, beams: Tensor | int) -> Tensor:
        """Returns [B H W] int32, the rows of this cache that a step writes to.

        Computed once per step: they are the same in all layers.

        Args:
            first_slot: int32 scalar. Beam w writes to slot `first_slot + w`.
            beams: W.

        Returns:
            Indices of the first axis of a cache seen as [B H X, K].
        """
        batch, heads, slots = tf.unstack(tf.shape(self.keys)[:3])
        first_row = tf.range(batch * heads) * slots + first_slot
        return tf.reshape(first_row[:, None] + tf.range(beams), [-1])

    def write(
        self, keys: Tensor, values: Tensor, rows: Tensor, *, in_place: bool = False
    ) -> "KVCache":
        """Returns the cache with the keys and values of each beam's newest token.

        Args:
            keys: [B, H, W, K] float.
            values: [B, H, W, U] float.
            rows: [B H W] int32, from `rows` of this cache or another layer's.
            in_place: Whether to overwrite this cache, which saves a copy at every
                step. For a cache that `empty` or `grow` made and that is no longer
                read. Not for XLA, which elides the copy.
        """
        return KVCache(
            _write(self.keys, keys, rows, in_place),
            _write(self.values, values, rows, in_place),
        )

    def grow(self, kept_slots: Tensor, new_slots: Tensor | int) -> "KVCache":
        """Returns a cache of some of the slots, in their order, and new ones.

        Args:
            kept_slots: [B, Y] int32, the slots of each sentence to keep.
            new_slots: int32 scalar, how many empty slots to append.
        """
        return KVCache(*(_grow(part, kept_slots, new_slots) for part in self))


class DecodeState(NamedTuple):
    """KV caches of all decoder layers, and what else a sentence has for all steps.

    Its tensors are [B, ...].

    Attributes:
        self_attention: The KV cache of each decoder layer: tokens decoded so far.
        cross_attention: The KV cache of each decoder layer: the encoder's output.
        source_mask: [B, 1, S] bool, True on real source tokens.
        output_rows: Output projection onto the tokens of a shortlist; `()` for none.
    """

    self_attention: list[KVCache]
    cross_attention: list[KVCache]
    source_mask: Tensor
    output_rows: OutputRows | tuple[()] = ()

    def grow(self, kept_slots: Tensor, new_slots: Tensor | int) -> "DecodeState":
        """Returns the state after `KVCache.grow` of each layer's self-attention."""
        caches = [cache.grow(kept_slots, new_slots) for cache in self.self_attention]
        return self._replace(self_attention=caches)


def _empty(
    batch: int | Tensor, heads: int, slots: int | Tensor, size: int, dtype: str
) -> Tensor:
    """Returns zeros [batch, heads, slots, size] that may be written to in place."""
    # Not `tf.zeros`: a graph keeps constant zeros from run to run, and the next run
    # would read values that were written to them in place.
    shape = [batch, heads, slots, size]
    zeros = tf.raw_ops.Empty(shape=shape, dtype=tf.as_dtype(dtype), init=True)
    return tf.ensure_shape(
        zeros, [each if isinstance(each, int) else None for each in shape]
    )


def _write(part: Tensor, newest: Tensor, rows: Tensor, in_place: bool) -> Tensor:
    """Returns keys or values [B, H, X, K] with `newest` [B, H, W, K] in their rows."""
    size = part.shape[3]
    rows_of_part = tf.reshape(part, [-1, size])
    new_rows = tf.reshape(newest, [-1, size])
    if in_place:
        updated = tf.raw_ops.InplaceUpdate(x=rows_of_part, i=rows, v=new_rows)
    else:
        updated = tf.tensor_scatter_nd_update(rows_of_part, rows[:, None], new_rows)
    return tf.reshape(updated, tf.shape(part))


def _grow(part: Tensor, kept_slots: Tensor, new_slots: Tensor | int) -> Tensor:
    """Returns `KVCache.grow` of keys or values [B, H, X, K]."""
    batch, heads, size = ops.shape(part)[0], part.shape[1], part.shape[3]
    index_BHY = tf.broadcast_to(
        kept_slots[:, None], [batch, heads, tf.shape(kept_slots)[1]]
    )
    kept_part = tf.gather(part, index_BHY, batch_dims=2)
    return tf.concat(
        [kept_part, _empty(batch, heads, new_slots, size, part.dtype)], axis=2
    )
