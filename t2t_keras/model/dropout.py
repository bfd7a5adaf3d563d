"""Dropout of layer outputs and attention weights; the mask depends on keys only.

A step that is repeated, on two replicas instead of one, compiled or not, must drop
the same elements. A stateful generator cannot guarantee that: its masks depend on the
order of calls and on the shape of a replica's shard. Here every row of the global
batch has a key, every dropout layer folds its own number into it, and a hash of (row
key, position in the row) decides whether an element is dropped. ADR 0013.

From the model down, a place's key is that of the row with these folded in:

    ModelSite.ENCODER
        StackSite.EMBEDDING
        StackSite.LAYERS, number of the layer from 0, EncoderLayerSite
    ModelSite.DECODER
        StackSite.EMBEDDING
        StackSite.LAYERS, number of the layer from 0, DecoderLayerSite

`AttentionDropout` folds in the head and the query, `NeighborhoodAttention` the block. A
number of a place never changes: runs that resume would drop other elements.

Shapes: B batch, any further axes; of attention weights H heads, T queries, S keys.
"""

import enum
import math

import keras
import numpy as np
from keras import ops

from t2t_keras.typing import Tensor


class ModelSite(enum.IntEnum):
    """Sides of the Transformer."""

    ENCODER = 0
    DECODER = 1


class StackSite(enum.IntEnum):
    """Parts of a side."""

    EMBEDDING = 0
    LAYERS = 1


class EncoderLayerSite(enum.IntEnum):
    """Outputs of the sub-layers, and attention weights, of an encoder layer."""

    ATTENTION = 0
    FEED_FORWARD = 1
    ATTENTION_WEIGHTS = 2


class DecoderLayerSite(enum.IntEnum):
    """Outputs of the sub-layers, and attention weights, of a decoder layer."""

    ATTENTION = 0
    CROSS_ATTENTION = 1
    FEED_FORWARD = 2
    ATTENTION_WEIGHTS = 3
    CROSS_ATTENTION_WEIGHTS = 4


def mix(bits: Tensor) -> Tensor:
    """Returns a hash of 32-bit words, a bijection.

    Two rounds of xor-shift and multiply; the constants are those of Wellons'
    "lowbias32" (2018), found by search for the least bias between any input bit
    and any output bit.

    Args:
        bits: uint32 of any shape, a tensor or an array of NumPy.

    Returns:
        The same of `bits`, of the same shape.
    """
    library = np if isinstance(bits, np.ndarray) else ops
    # Constants of the dtype: a cast is an operation more, in each of a hundred places.
    bits = library.bitwise_xor(bits, library.right_shift(bits, np.uint32(16)))
    bits = bits * np.uint32(0x7FEB352D)
    bits = library.bitwise_xor(bits, library.right_shift(bits, np.uint32(15)))
    bits = bits * np.uint32(0x846CA68B)
    return library.bitwise_xor(bits, library.right_shift(bits, np.uint32(16)))


def fold_in(keys: Tensor | None, number: Tensor | int) -> Tensor | None:
    """Returns new keys, one for each old one, that depend on `number` too.

    Args:
        keys: [B] uint32, or None to drop nothing.
        number: Number of the use: a layer's index, a step. int, or an int tensor that
            broadcasts to [B].

    Returns:
        [B] uint32, or None if `keys` is None.
    """
    if keys is None:
        return None
    # Mixed twice, so that fold_in(fold_in(k, a), b) differs from (b, a). The key is
    # multiplied by 3, or key 1 with number 1 would equal key 2 with number 0.
    if isinstance(number, int):
        # A constant of the graph, not operations.
        number_bits = mix(np.array([number + 1], "uint32"))[0]
    else:
        number_bits = mix(ops.cast(number, "uint32") + 1)
    return mix(mix(keys) * 3 + number_bits)


class DropoutKeyGenerator:
    """Dropout keys of a plain Keras call, `model(inputs, training=True)`.

    They come from a Keras seed generator, which `keras.utils.set_random_seed` seeds.
    This class hides it from Keras' tracking of variables: the model's predictions do
    not depend on it, so it is in no checkpoint and no export.

    Under a distribution strategy all replicas draw the same keys for their rows 0, 1,
    2, ..., as Keras' own dropout does.
    """

    def __init__(self) -> None:
        self._seed_generator = keras.random.SeedGenerator()

    def next(self, rows: Tensor | int) -> Tensor:
        """Returns keys [rows] uint32; each call returns other keys."""
        seed: Tensor = ops.cast(self._seed_generator.next(), "uint32")
        keys = ops.cast(ops.arange(rows), "uint32")
        return fold_in(fold_in(keys, seed[0]), seed[1])  # type: ignore[return-value]


@keras.saving.register_keras_serializable(package="t2t_keras")
class Dropout(keras.layers.Layer):
    """Zeroes elements at `dropout_rate` and scales the others up (section 5.4).

    There is no `training` argument: a call with keys drops elements, and a call without
    does not. A caller that forgets the keys cannot change the predictions of a model.

    Args:
        dropout_rate: Fraction of the elements to drop, in [0, 1).
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        inputs: [B, ...] float.
        dropout_keys: [B] uint32, one key a row, or None to pass `inputs` through.

    Returns:
        The shape and dtype of `inputs`.

    Raises:
        ValueError: If `dropout_rate` is outside [0, 1).
    """

    def __init__(self, dropout_rate: float, **kwargs):
        super().__init__(**kwargs)
        if not 0.0 <= dropout_rate < 1.0:
            raise ValueError(
                f"dropout_rate must be in [0, 1). Received: {dropout_rate}"
            )
        self.dropout_rate = dropout_rate

    def build(self, input_shape):
        self.built = True

    def call(self, inputs, dropout_keys=None):
        if dropout_keys is None or self.dropout_rate == 0.0:
            return inputs
        shape = ops.shape(inputs)
        row_shape = (1, *shape[1:])
        size = math.prod(shape[1:]) if None not in inputs.shape[1:] else None
        if size is None:
            size = ops.prod(ops.stack([ops.cast(n, "int32") for n in shape[1:]]))
        position = ops.reshape(ops.cast(ops.arange(size), "uint32"), row_shape)
        key_shape = (-1, *([1] * (len(inputs.shape) - 1)))
        key = ops.reshape(dropout_keys, key_shape)
        bits = mix(ops.bitwise_xor(mix(position), key))
        # For a rate within 2^-33 of 1, rounding would wrap the threshold to 0.
        threshold = min(round(self.dropout_rate * 2**32), 2**32 - 1)
        keep_mask = ops.cast(bits >= ops.cast(threshold, "uint32"), inputs.dtype)
        # A product, not a `where`: its gradient is a product, too.
        scale = ops.cast(1.0 / (1.0 - self.dropout_rate), inputs.dtype)
        return inputs * (keep_mask * scale)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "dropout_rate": self.dropout_rate}


@keras.saving.register_keras_serializable(package="t2t_keras")
class AttentionDropout(Dropout):
    """Zeroes weights at `dropout_rate` and scales the others up (section 6.3).

    A hash of its row's dropout key, its head, query and key decides whether a weight is
    dropped, independent of the padding of the row and of other rows in the batch. In
    packed rows, positions count from the start of the row (ADR 0013).

    Args:
        dropout_rate: Fraction of the weights to drop, in [0, 1).
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
        # A row for each query, with positions counted from its first key.
        rows = ops.reshape(inputs, (batch * heads * queries, keys))
        dropped = super().call(rows, ops.reshape(keys_BHT, (-1,)))
        return ops.reshape(dropped, (batch, heads, queries, keys))
