"""Dropout of attention weights: for some queries, some positions are not there.

Shapes: B batch, H heads, T queries, S keys.
"""

from keras import ops

from t2t_keras.model.dropout import Dropout, fold_in


class AttentionDropout(Dropout):
    """Zeroes weights at `dropout_rate` and scales the others up (section 6.3).

    A weight is dropped according to its row's key, its head, query and key: the same
    however far a bucket pads the row, and whoever else is in the batch. In packed rows
    it is so for the row (ADR 0013).

    Args:
        dropout_rate: Share of the weights to drop, in [0, 1).
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        inputs: [B, H, T, S] float.
        dropout_keys: [B] uint32, one key a row, or None to pass `inputs` through.

    Returns:
        The shape and dtype of `inputs`.

    Raises:
        ValueError: If `dropout_rate` is outside [0, 1).
    """

    def call(self, inputs, dropout_keys=None):
        if dropout_keys is None or self.dropout_rate == 0.0:
            return inputs
        batch, heads, queries, keys = ops.shape(inputs)
        keys_BH = fold_in(ops.reshape(dropout_keys, (-1, 1)), ops.arange(heads))
        keys_BHT = fold_in(ops.expand_dims(keys_BH, 2), ops.arange(queries))
        # A row for each query, in which positions are counted from its first key.
        rows = ops.reshape(inputs, (batch * heads * queries, keys))
        dropped = super().call(rows, ops.reshape(keys_BHT, (-1,)))
        return ops.reshape(dropped, (batch, heads, queries, keys))
