"""A Transformer with RMSNorm and gated feed-forward networks (SwiGLU).

from examples.rms_norm_model import GatedTransformer
model = GatedTransformer(8_000, num_layers=2, normalization="pre")
"""

import keras

from t2t_keras import Transformer


class GatedFeedForward(keras.layers.Layer):
    """(swish(x W) * x V) W_2, "GLU Variants Improve Transformer" (Shazeer, 2020)."""

    def __init__(self, d_model: int, d_ff: int, **kwargs):
        super().__init__(**kwargs)
        options = {"use_bias": False, "dtype": self.dtype_policy}
        self.gate = keras.layers.Dense(d_ff, "swish", name="gate", **options)
        self.inner = keras.layers.Dense(d_ff, name="inner", **options)
        self.outer = keras.layers.Dense(d_model, name="outer", **options)

    def build(self, inputs_shape):
        for dense in (self.gate, self.inner):
            dense.build(inputs_shape)
        self.outer.build((*inputs_shape[:-1], self.inner.units))

    def call(self, inputs):
        return self.outer(self.gate(inputs) * self.inner(inputs))


@keras.saving.register_keras_serializable(package="examples")
class GatedTransformer(Transformer):
    """The Transformer with these parts in all of its layers."""

    def make_norm(self, **kwargs):
        epsilon = self.options.layer_norm_epsilon
        return keras.layers.RMSNormalization(epsilon=epsilon, **kwargs)

    def make_feed_forward(self, **kwargs):
        return GatedFeedForward(self.options.d_model, self.options.d_ff, **kwargs)
