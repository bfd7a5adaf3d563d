"""Dense projection, feed-forward network, residual connection with normalization.

Shapes: B batch, L length, D model width, F inner width, N width of a projection.
"""

import keras
from keras import ops

from t2t_keras.model.dropout import Dropout
from t2t_keras.typing import Tensor


def project(inputs: Tensor, *kernels: Tensor) -> list[Tensor]:
    """Returns `inputs @ kernel` for each kernel.

    All positions of all rows are the rows of one matrix, and the kernels are
    concatenated to another: one large product is faster than several small ones, and
    than a batch of products, whose gradient would keep a copy of the kernel for each
    row of the batch. With many rows, copying the kernels costs little in comparison.

    Args:
        inputs: [B, L, D] float.
        *kernels: [D, N] float, each with its own N; cast to the dtype of `inputs`.

    Returns:
        [B, L, N] for each kernel, in the dtype of `inputs`.
    """
    batch, length, width = ops.shape(inputs)
    sizes = [kernel.shape[1] for kernel in kernels]
    cast_kernels = [ops.cast(kernel, inputs.dtype) for kernel in kernels]
    kernel_DN = cast_kernels[0]
    if len(kernels) > 1:
        kernel_DN = ops.concatenate(cast_kernels, axis=1)
    products = ops.matmul(ops.reshape(inputs, (-1, width)), kernel_DN)
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
    parts = ops.split(products, ends, axis=1) if ends else [products]
    return [ops.reshape(part, (batch, length, part.shape[1])) for part in parts]


@keras.saving.register_keras_serializable(package="t2t_keras")
class FeedForward(keras.layers.Layer):
    """Position-wise feed-forward network: max(0, x W_1 + b_1) W_2 + b_2, equation 2.

    Section 3.3.

    Args:
        d_ff: Inner width, F.
        activation: Keras' name of the function in place of max(0, ·): "relu", "swish"
            (x sigmoid(x)) or "gelu" (exact, x Φ(x), without the approximation by tanh).
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        inputs: [B, L, D] float.

    Returns:
        [B, L, D].
    """

    def __init__(self, d_ff: int, activation: str = "relu", **kwargs):
        super().__init__(**kwargs)
        self.d_ff = d_ff
        self.activation = activation

    def build(self, inputs_shape):
        self.inner = keras.layers.Dense(
            self.d_ff, self.activation, name="inner", dtype=self.dtype_policy
        )
        self.outer = keras.layers.Dense(
            inputs_shape[-1], name="outer", dtype=self.dtype_policy
        )
        self.inner.build(inputs_shape)
        self.outer.build((*inputs_shape[:-1], self.d_ff))
        self.built = True

    def call(self, inputs):
        # One product for all rows of the batch: see `project`.
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        return ops.reshape(self.outer(self.inner(rows)), ops.shape(inputs))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        config = {"d_ff": self.d_ff, "activation": self.activation}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="t2t_keras")
class ResidualNorm(keras.layers.Layer):
    """Residual connection and normalization around a sub-layer.

    Post-norm, as in the paper, is LayerNorm(x + Dropout(Sublayer(x))). Pre-norm is
    x + Dropout(Sublayer(LayerNorm(x))), and the caller passes `sublayer_inputs(x)` to
    the sub-layer (ADR 0006).

    Args:
        norm: The normalization, a layer of the paper's LayerNorm(x) or another.
        dropout_rate: P_drop of the sub-layer's output.
        normalization: "post" or "pre".
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        inputs: [B, L, D] float, the x.
        sublayer_outputs: [B, L, D] float, the sub-layer's output.
        dropout_keys: [B] uint32, or None to drop nothing.

    Returns:
        [B, L, D].

    Raises:
        ValueError: If `normalization` is neither "post" nor "pre".
    """

    def __init__(
        self,
        norm: keras.layers.Layer,
        dropout_rate: float,
        normalization: str = "post",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if normalization not in ("post", "pre"):
            raise ValueError(
                f'normalization must be "post" or "pre". Received: {normalization}'
            )
        self.dropout_rate = dropout_rate
        self.normalization = normalization
        self.dropout = Dropout(dropout_rate, name="dropout", dtype=self.dtype_policy)
        self.norm = norm

    def build(self, inputs_shape, sublayer_outputs_shape=None):
        self.dropout.build(inputs_shape)
        # Keras has built a norm that it loads from a file.
        if not self.norm.built:
            self.norm.build(inputs_shape)
        self.built = True

    def sublayer_inputs(self, inputs: Tensor) -> Tensor:
        """Returns the sub-layer's input [B, L, D]: x, or with pre-norm LayerNorm(x)."""
        return self.norm(inputs) if self.normalization == "pre" else inputs

    def call(self, inputs, sublayer_outputs, dropout_keys=None):
        dropped = self.dropout(sublayer_outputs, dropout_keys=dropout_keys)
        total = inputs + dropped
        return total if self.normalization == "pre" else self.norm(total)

    def compute_output_shape(self, inputs_shape, sublayer_outputs_shape=None):
        return inputs_shape

    def get_config(self):
        config = {
            "norm": keras.saving.serialize_keras_object(self.norm),
            "dropout_rate": self.dropout_rate,
            "normalization": self.normalization,
        }
        return {**super().get_config(), **config}

    @classmethod
    def from_config(cls, config):
        norm = keras.saving.deserialize_keras_object(config["norm"])
        return cls(**{**config, "norm": norm})
