"""The position-wise feed-forward network (section 3.3).

Shapes: B batch, L length, D model width, F inner width.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="t2t_keras")
class FeedForward(keras.layers.Layer):
    """max(0, x W_1 + b_1) W_2 + b_2 at every position alike, equation 2.

    Args:
        d_ff: Inner width, F.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        inputs: [B, L, D] float.

    Returns:
        [B, L, D].
    """

    def __init__(self, d_ff: int, **kwargs):
        super().__init__(**kwargs)
        self.d_ff = d_ff

    def build(self, inputs_shape):
        self.inner = keras.layers.Dense(
            self.d_ff, activation="relu", name="inner", dtype=self.dtype_policy
        )
        self.outer = keras.layers.Dense(
            inputs_shape[-1], name="outer", dtype=self.dtype_policy
        )
        self.inner.build(inputs_shape)
        self.outer.build((*inputs_shape[:-1], self.d_ff))
        self.built = True

    def call(self, inputs):
        # One matrix, not one for each row of the batch: see `project`.
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        return ops.reshape(self.outer(self.inner(rows)), ops.shape(inputs))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "d_ff": self.d_ff}
