"""Keys and values of what has been decoded, kept once for all hypotheses.

A cache has W slots for each position that it has room for. A hypothesis writes to the
slot of its own number and reads those that its ancestors wrote to: which, a mask says.
So nothing is moved when hypotheses change places, and a sentence's W hypotheses are W
rows of one product with its slots.

Shapes: B sentences, W hypotheses of each, R positions that there is room for, H heads,
K size per head.
"""

from typing import NamedTuple, TypeAlias

import tensorflow as tf

from t2t_keras.decoding.sizes import size_of
from t2t_keras.typing import Tensor

# [B, H, R W, K], for instance of one layer's keys.
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


def grown(cache: KeyValueCache, slots: Tensor) -> KeyValueCache:
    """Returns a cache that holds what it held, and has `slots` slots in all."""
    batch, heads, size = size_of(cache, 0), cache.shape[1], cache.shape[3]
    more = slots - tf.shape(cache)[2]
    return tf.concat([cache, empty(batch, heads, more, size, cache.dtype)], axis=2)


class Places(NamedTuple):
    """Where the hypotheses stand at one step.

    Attributes:
        rows: [B W H] int32, rows of a cache seen as [B H R W, K]: where hypothesis
            by hypothesis, head by head, the newest keys and values go.
        mask: [B, W, R W] bool, True on the slots that a hypothesis may read.
    """

    rows: Tensor
    mask: Tensor


def places(
    ancestors: Tensor, position: Tensor, heads: int, beams: int | Tensor
) -> Places:
    """Returns where to write, and what each hypothesis may read.

    Args:
        ancestors: [B, W, R] int32, as a step function is given them. At position 0
            there may be fewer than W.
        position: int32 scalar.
        heads: H.
        beams: W.
    """
    batch, alive, room = tf.unstack(tf.shape(ancestors))
    is_past_R1 = tf.range(room)[:, None] <= position
    mask_BWRW = (ancestors[..., None] == tf.range(beams)) & is_past_R1
    first_BH = tf.reshape(tf.range(batch * heads) * room * beams, [batch, 1, heads])
    slots_W1 = (position * beams + tf.range(alive))[:, None]
    return Places(
        tf.reshape(first_BH + slots_W1, [-1]),
        tf.reshape(mask_BWRW, [batch, alive, room * beams]),
    )


def written(
    cache: KeyValueCache, newest: Tensor, rows: Tensor, *, in_place: bool
) -> KeyValueCache:
    """Returns the cache with the newest keys, or values, in their rows.

    Args:
        cache: [B, H, R W, K].
        newest: [B, W, H, K].
        rows: From `places`.
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
