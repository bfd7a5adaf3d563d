"""KV cache that is written in place and grows, for searches in TensorFlow.

A functional write copies the whole cache at every step of a `tf.while_loop`. The search
owns its caches and reads only the newest, so it may overwrite them (ADR 0020). Not for
XLA, which elides the copy itself and needs constant shapes.

Shapes: B sentences, X slots, Y slots kept, H heads, K size per head.
"""

import tensorflow as tf

from t2t_keras.model.kv_cache import DecodeState, KVCache
from t2t_keras.typing import Tensor


class InPlaceKVCache(KVCache):
    """Cache that `write` overwrites: only what it returns may be read."""

    __slots__ = ()

    @classmethod
    def empty(
        cls,
        batch: int | Tensor,
        num_heads: int,
        slots: int | Tensor,
        d_k: int,
        d_v: int,
        dtype: str,
    ) -> "InPlaceKVCache":
        """Returns a cache whose slots hold zeros."""
        shapes = ([batch, num_heads, slots, size] for size in (d_k, d_v))
        # Not `tf.zeros`: a graph keeps constant zeros from run to run, and the next run
        # would read values that were written to them in place.
        return cls(
            *(tf.raw_ops.Empty(shape=shape, dtype=dtype, init=True) for shape in shapes)
        )

    def write(self, keys: Tensor, values: Tensor, rows: Tensor) -> "InPlaceKVCache":
        """Returns the cache with the keys and values of each beam's newest token.

        The arguments are those of `KVCache.write`.
        """
        return InPlaceKVCache(
            _write(self.keys, keys, rows), _write(self.values, values, rows)
        )


def grow_cache(
    cache: KVCache, kept_slots: Tensor, new_slots: Tensor | int
) -> InPlaceKVCache:
    """Returns a copy with some of the slots, in their order, and new ones.

    Args:
        cache: Any cache.
        kept_slots: [B, Y] int32, the slots of each sentence to keep.
        new_slots: int32 scalar, how many empty slots to append.
    """
    keys, values = cache
    batch, heads = tf.shape(keys)[0], keys.shape[1]
    sizes = keys.shape[3], values.shape[3]
    empty = InPlaceKVCache.empty(batch, heads, new_slots, *sizes, keys.dtype)
    index_BHY = tf.broadcast_to(
        kept_slots[:, None], [batch, heads, tf.shape(kept_slots)[1]]
    )
    kept = [tf.gather(part, index_BHY, batch_dims=2) for part in cache]
    pairs = zip(kept, empty, strict=True)
    return InPlaceKVCache(*(tf.concat(pair, axis=2) for pair in pairs))


def grow_state(
    state: DecodeState, kept_slots: Tensor, new_slots: Tensor | int
) -> DecodeState:
    """Returns the state after `grow_cache` of each layer's self-attention."""
    caches = [grow_cache(each, kept_slots, new_slots) for each in state.self_attention]
    return state._replace(self_attention=caches)


def _write(part: Tensor, newest: Tensor, rows: Tensor) -> Tensor:
    """Returns keys or values [B, H, X, K] with `newest` [B, H, W, K] in their rows."""
    size = part.shape[3]
    updated = tf.raw_ops.InplaceUpdate(
        x=tf.reshape(part, [-1, size]), i=rows, v=tf.reshape(newest, [-1, size])
    )
    return tf.reshape(updated, tf.shape(part))
