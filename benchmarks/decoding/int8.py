"""Transformer whose products are of int8: an experiment, which no export has.

It answers how fast a SavedModel with the quantized products of stock TensorFlow would
be; benchmarks/README.md has the answer. Weights are quantized by column, inputs by row
while the search runs, so a row's result does not depend on its batch. The kernels exist
with oneDNN only (TF_ENABLE_ONEDNN_OPTS=1, the default of CPUs with VNNI).

Shapes: R rows, K inputs, N outputs of a product.
"""

import numpy as np
import tensorflow as tf
from keras import ops

from t2t_keras.model.attention import MultiHeadAttention, swap_heads
from t2t_keras.model.embedding import SharedEmbedding
from t2t_keras.model.layers import FeedForward
from t2t_keras.model.transformer import Transformer
from t2t_keras.typing import Tensor

# Inputs are stored as unsigned numbers, with this for 0.
ZERO = 128
LARGEST_INPUT = 127
# Without VNNI, oneDNN adds two products of 255 and a weight in 16 bits. Larger weights
# saturate: with all of them at 127 a product was 39 % too small.
LARGEST_WEIGHT = 64


class QuantizedKernel:
    """Kernel [K, N] of a product, in int8 with a scale for each column.

    Args:
        kernel: [K, N] float.
    """

    def __init__(self, kernel: np.ndarray):
        largest_N = np.maximum(np.abs(kernel).max(axis=0), 1e-30)
        self.scale = (largest_N / LARGEST_WEIGHT).astype("float32")
        self.integers = np.round(kernel / self.scale).astype("int8")
        self.sums = self.integers.sum(axis=0, dtype="int64").astype("float32")
        self.shape = kernel.shape

    def multiply(self, inputs: Tensor) -> Tensor:
        """Returns `inputs @ kernel`, approximately: [..., N] for [..., K] float32."""
        inputs_RK = tf.reshape(inputs, [-1, self.shape[0]])
        largest_R1 = tf.reduce_max(tf.abs(inputs_RK), axis=1, keepdims=True)
        step_R1 = tf.maximum(largest_R1, 1e-30) / LARGEST_INPUT
        quantized_RK = tf.cast(tf.round(inputs_RK / step_R1) + ZERO, tf.uint8)
        # With these ranges the result is the product of the integers, and the bias
        # removes what ZERO adds to each of them.
        products_RN = tf.raw_ops.QuantizedMatMulWithBiasAndDequantize(
            a=tf.bitcast(quantized_RK, tf.quint8),
            b=tf.bitcast(tf.constant(self.integers), tf.qint8),
            bias=tf.constant(-ZERO * self.sums),
            min_a=0.0,
            max_a=255.0,
            min_b=-127.0,
            max_b=127.0,
            min_freezed_output=0.0,
            max_freezed_output=0.0,
            Toutput=tf.float32,
            input_quant_mode="SCALED",
        )
        outputs_RN = products_RN * step_R1 * self.scale
        shape = tf.concat([tf.shape(inputs)[:-1], [self.shape[1]]], axis=0)
        outputs = tf.reshape(outputs_RN, shape)
        outputs.set_shape([*inputs.shape[:-1], self.shape[1]])
        return outputs


def quantize(*weights: Tensor) -> QuantizedKernel:
    """Returns the kernel of weights [K, N], each with its own N, beside each other."""
    # Constants, not variables: oneDNN packs them once.
    with tf.init_scope():
        arrays = [ops.convert_to_numpy(weight) for weight in weights]
    return QuantizedKernel(np.concatenate(arrays, axis=1))


class Int8Attention(MultiHeadAttention):
    """Attention whose four projections are of int8; the others' arguments."""

    def fused_qkv_kernel(self) -> QuantizedKernel:
        """Returns [D, H (2K + U)], the kernel for `project_fused`."""
        with tf.init_scope():
            kernel = ops.convert_to_numpy(super().fused_qkv_kernel())
        return QuantizedKernel(kernel)

    def project_fused(
        self, inputs: Tensor, fused_qkv_kernel: QuantizedKernel
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries [B, H, L, K], keys [B, H, L, K] and values [B, H, L, U]."""
        batch, length = ops.shape(inputs)[:2]
        width = 2 * self.d_k + self.d_v
        fused = fused_qkv_kernel.multiply(inputs)
        by_head = swap_heads(ops.reshape(fused, (batch, length, self.num_heads, width)))
        queries, keys, values = ops.split(by_head, [self.d_k, 2 * self.d_k], axis=3)
        return queries, keys, values

    def _split_heads(self, inputs: Tensor, *names: str) -> list[Tensor]:
        kernels = [getattr(self, f"{name}_kernel") for name in names]
        products = quantize(*kernels).multiply(inputs)
        sizes = [kernel.shape[1] for kernel in kernels]
        batch, length = ops.shape(inputs)[:2]
        heads = self.num_heads
        return [
            ops.reshape(part, (batch, length, heads, part.shape[2] // heads))
            for part in tf.split(products, sizes, axis=2)
        ]

    def _join_heads(self, heads_BTHU: Tensor) -> Tensor:
        batch, length = ops.shape(heads_BTHU)[:2]
        joined = ops.reshape(heads_BTHU, (batch, length, self.num_heads * self.d_v))
        return quantize(self.output_kernel).multiply(joined)


class Int8FeedForward(FeedForward):
    """Feed-forward network of int8 products; the other's arguments."""

    def call(self, inputs):
        """Returns [B, L, D]."""
        inner = quantize(self.inner.kernel).multiply(inputs) + self.inner.bias
        activated = self.inner.activation(inner)
        return quantize(self.outer.kernel).multiply(activated) + self.outer.bias


class Int8Embedding(SharedEmbedding):
    """Embedding whose logits are an int8 product; the other's arguments."""

    def output_kernel(self) -> QuantizedKernel:
        """Returns [D, V], the kernel of `logits`."""
        with tf.init_scope():
            matrix = ops.convert_to_numpy(self.output_embeddings)
        return QuantizedKernel(matrix.T)

    def logits(self, hidden, output_kernel=None):
        """Returns [B, L, V]."""
        kernel = self.output_kernel() if output_kernel is None else output_kernel
        return kernel.multiply(hidden)


class Int8Transformer(Transformer):
    """Transformer without biases in attention, whose products are of int8."""

    def make_attention(self, **kwargs):
        """Returns an attention of int8 products."""
        return Int8Attention(*self.options.head_sizes(), **kwargs)

    def make_feed_forward(self, **kwargs):
        """Returns a feed-forward network of int8 products."""
        return Int8FeedForward(self.options.d_ff, self.options.activation, **kwargs)

    def _add_layers(self) -> None:
        super()._add_layers()
        sizes = self.sizes
        self.embedding = Int8Embedding(
            sizes["vocabulary_size"],
            sizes["d_model"],
            sizes["tie_output"],
            name="embedding",
            dtype=self.dtype_policy,
        )


def quantized(model: Transformer) -> Int8Transformer:
    """Returns a model with the same weights, whose products are of int8."""
    quantized_model = Int8Transformer(**model.sizes)
    # The embedding is the last one here.
    weights = {weight.path: weight for weight in model.weights}
    for weight in quantized_model.weights:
        weight.assign(weights[weight.path])
    return quantized_model
