"""Residual connection and layer normalization around each sub-layer (post-norm).

Shapes: B batch, L length, D model width.
"""

import keras

from t2t_keras.model.dropout import Dropout


@keras.saving.register_keras_serializable(package="t2t_keras")
class ResidualNorm(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))): the paper's post-norm (ADR 0006).

    Args:
        dropout_rate: P_drop of the sub-layer's output.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        inputs: [B, L, D] float, the x.
        sublayer_outputs: [B, L, D] float, the Sublayer(x).
        dropout_keys: [B] uint32, or None to drop nothing.

    Returns:
        [B, L, D].
    """

    def __init__(self, dropout_rate: float, **kwargs):
        super().__init__(**kwargs)
        self.dropout_rate = dropout_rate
        self.dropout = Dropout(dropout_rate, name="dropout", dtype=self.dtype_policy)
        # Keras' default epsilon of 1e-3 is a thousand times the authors' code's.
        self.norm = keras.layers.LayerNormalization(
            epsilon=1e-6, name="norm", dtype=self.dtype_policy
        )

    def build(self, inputs_shape, sublayer_outputs_shape=None):
        self.dropout.build(inputs_shape)
        self.norm.build(inputs_shape)
        self.built = True

    def call(self, inputs, sublayer_outputs, dropout_keys=None):
        dropped = self.dropout(sublayer_outputs, dropout_keys=dropout_keys)
        return self.norm(inputs + dropped)

    def compute_output_shape(self, inputs_shape, sublayer_outputs_shape=None):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "dropout_rate": self.dropout_rate}
