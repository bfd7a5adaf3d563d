"""Attention masks: padding, causal, packed rows, neighborhoods.

Masks are boolean, True = may attend, and broadcast to [B, T, S].
"""

from keras import ops

from t2t_keras.typing import Tensor


def padding_mask(tokens: Tensor, pad_id: int = 0) -> Tensor:
    """Returns True where a token is real, the same for every query.

    Args:
        tokens: [B, S] int token ids.
        pad_id: Id of padding.

    Returns:
        [B, 1, S] bool.
    """
    return ops.expand_dims(ops.not_equal(tokens, pad_id), axis=1)


def segment_mask(query_segments: Tensor, key_segments: Tensor) -> Tensor:
    """Returns True where key and query belong to the same sentence pair.

    In a packed row, pairs must not see each other. In a row of two pairs and one
    position of padding, (1 1 2 0), queries see

        1 1 0 0
        1 1 0 0
        0 0 1 0
        0 0 0 0

    Args:
        query_segments: [B, T] int, the number of the pair within its row, 0 for
            padding.
        key_segments: [B, S] int, numbered alike.

    Returns:
        [B, T, S] bool.
    """
    keys_B1S = ops.expand_dims(key_segments, axis=1)
    same_BTS = ops.equal(ops.expand_dims(query_segments, axis=2), keys_B1S)
    return ops.logical_and(same_BTS, ops.not_equal(keys_B1S, 0))


def causal_mask(length: Tensor | int) -> Tensor:
    """Returns True where the key is not later than the query (section 3.2.3).

    Args:
        length: Number of positions, T.

    Returns:
        [1, T, T] bool, the lower triangle with its diagonal.
    """
    position_T = ops.arange(length)
    return (position_T[None, :] <= position_T[:, None])[None]


def neighborhood_mask(length: Tensor | int, neighborhood: int) -> Tensor:
    """Returns True where the key is one of the r positions around the query.

    Restricted self-attention, section 4: "a neighborhood of size r in the input
    sequence centered around the respective output position".

    Args:
        length: Number of positions, T.
        neighborhood: r, odd, so that it can be centered.

    Returns:
        [1, T, T] bool, a band of width r.

    Raises:
        ValueError: If r is not a positive odd number.
    """
    if neighborhood < 1 or neighborhood % 2 == 0:
        raise ValueError(
            "neighborhood must be a positive odd number, so that it can be centered "
            f"on the query. Received: {neighborhood}"
        )
    position_T = ops.arange(length)
    distance_TT = ops.abs(position_T[None, :] - position_T[:, None])
    return (distance_TT <= neighborhood // 2)[None]
