"""KV cache: keys and values of decoded tokens, kept once for all hypotheses.

A cache has X slots. At each step a hypothesis writes to one of its own, and reads those
that it and its ancestors wrote to: which, the search says. So nothing is moved when
hypotheses change places, and a sentence's W hypotheses are W rows of one product with
its slots.

Shapes: B sentences, W hypotheses of each, X slots, H heads, K size per head.
"""

from typing import TypeAlias

import tensorflow as tf

from t2t_keras.decoding.search_state import size_of
from t2t_keras.typing import Tensor

# [B, H, X, K], for instance of one layer's keys.
KeyValueCache: TypeAlias = Tensor


def empty(
    batch: int | Tensor, heads: int, slots: int | Tensor, size: int, dtype: str
) -> KeyValueCache:
    """Returns a cache of zeros."""
    # Not `tf.zeros`: what a graph knows to be zero it keeps from run to run, and
    # what is written in place there would be found by the next.
    shape = [batch, heads, slots, size]
    zeros = tf.raw_ops.Empty(shape=shape, dtype=tf.as_dtype(dtype), init=True)
    return tf.ensure_shape(
        zeros, [each if isinstance(each, int) else None for each in shape]
    )


def grown(cache: KeyValueCache, index: Tensor, more: Tensor) -> KeyValueCache:
    """Returns a cache with the slots [B, U] that `index` names, and `more` new ones."""
    batch, heads, size = size_of(cache, 0), cache.shape[1], cache.shape[3]
    index_BHU = tf.broadcast_to(index[:, None], [batch, heads, tf.shape(index)[1]])
    kept = tf.gather(cache, index_BHU, batch_dims=2)
    return tf.concat([kept, empty(batch, heads, more, size, cache.dtype)], axis=2)


def rows_written(first_slot: Tensor, shape: Tensor, alive: Tensor) -> Tensor:
    """Returns where hypothesis by hypothesis, head by head, newest keys and values go.

    Args:
        first_slot: int32 scalar, where the first hypothesis writes to.
        shape: That of a cache, int32 [4].
        alive: W, at position 0 fewer than there are going to be.

    Returns:
        [B W H] int32, rows of a cache seen as [B H X, K].
    """
    batch, heads, slots = shape[0], shape[1], shape[2]
    first_BH = tf.reshape(tf.range(batch * heads) * slots, [batch, 1, heads])
    slots_W1 = (first_slot + tf.range(alive))[:, None]
    return tf.reshape(first_BH + slots_W1, [-1])


def written(
    cache: KeyValueCache, newest: Tensor, rows: Tensor, *, in_place: bool
) -> KeyValueCache:
    """Returns the cache with the newest keys, or values, in their rows.

    Args:
        cache: [B, H, X, K].
        newest: [B, W, H, K].
        rows: From `rows_written`.
        in_place: Whether the cache itself is changed, which saves copying it at every
            step: for one that came from this module, that nobody reads any more. XLA
            sees by itself that it need not copy.
    """
    size = cache.shape[3]
    rows_of_cache = tf.reshape(cache, [-1, size])
    new_rows = tf.reshape(newest, [-1, size])
    if in_place:
        filled = tf.raw_ops.InplaceUpdate(x=rows_of_cache, i=rows, v=new_rows)
    else:
        filled = tf.tensor_scatter_nd_update(rows_of_cache, rows[:, None], new_rows)
    return tf.reshape(filled, tf.shape(cache))
