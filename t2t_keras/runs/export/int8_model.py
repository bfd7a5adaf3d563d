"""Models whose matrix products are of int8, for searches on CPUs.

The products are those of stock TensorFlow. Weights are quantized once, by column;
inputs while the search runs, by row, so that the result of a sentence does not depend
on the others of its batch. Kernels exist on x86 CPUs while TensorFlow uses oneDNN,
which is its default on those with VNNI (ADR 0040).

Shapes: R rows, K inputs, N outputs of a product, B batch, L length, D model width,
V vocabulary.
"""

import functools
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.model.attention import MultiHeadAttention, swap_heads
from t2t_keras.model.embedding import OutputRows, SharedEmbedding
from t2t_keras.model.layers import FeedForward
from t2t_keras.model.transformer import Transformer
from t2t_keras.typing import Tensor

# Inputs are stored as unsigned numbers, with this for 0.
_ZERO = 128
_LARGEST_INPUT = 127
# Without VNNI, oneDNN adds two products of an input and a weight in 16 bits, which
# larger weights overflow: with all of them at 127 a product was 39 % too small.
_LARGEST_WEIGHT = 64


class Int8Kernel:
    """Kernel [K, N] of a product, in int8 with a scale for each column.

    Args:
        *weights: [K, N] float each, with its own N; they are beside each other.
    """

    def __init__(self, *weights: Any):
        kernel_KN = np.concatenate([ops.convert_to_numpy(each) for each in weights], 1)
        self._integers_KN, self._scale_N = quantize_columns(kernel_KN)

    def multiply(self, inputs: Tensor) -> Tensor:
        """Returns `inputs @ kernel`, approximately: [..., N] for [..., K] float32."""
        inner, outer = self._integers_KN.shape
        outputs_RN = self._product(tf.reshape(inputs, [-1, inner]))
        shape = tf.concat([tf.shape(inputs)[:-1], [outer]], axis=0)
        outputs = tf.reshape(outputs_RN, shape)
        outputs.set_shape([*inputs.shape[:-1], outer])
        return outputs

    @functools.cached_property
    def _product(self) -> Any:
        """Function of inputs [R, K] float32 that returns [R, N] float32.

        A function is saved once, however many signatures call it. In a server the
        kernel is a constant in the graph of each, which oneDNN packs once. It would
        pack a variable at every step, five times as long as the product.
        """
        rows = tf.TensorSpec([None, len(self._integers_KN)], tf.float32)
        function = tf.function(self._multiply_rows, autograph=False)
        with tf.init_scope():
            return function.get_concrete_function(rows)

    def _multiply_rows(self, inputs_RK: Tensor) -> Tensor:
        largest_R1 = tf.reduce_max(tf.abs(inputs_RK), axis=1, keepdims=True)
        step_R1 = tf.maximum(largest_R1, 1e-30) / _LARGEST_INPUT
        integers_RK = tf.cast(tf.round(inputs_RK / step_R1) + _ZERO, tf.uint8)
        # With these ranges the result is the product of the integers, and the bias
        # removes what _ZERO adds to each of them.
        sums_N = self._integers_KN.sum(axis=0, dtype="int64").astype("float32")
        products_RN = tf.raw_ops.QuantizedMatMulWithBiasAndDequantize(
            a=tf.bitcast(integers_RK, tf.quint8),
            b=tf.bitcast(tf.constant(self._integers_KN), tf.qint8),
            bias=tf.constant(-_ZERO * sums_N),
            min_a=0.0,
            max_a=255.0,
            min_b=-127.0,
            max_b=127.0,
            min_freezed_output=0.0,
            max_freezed_output=0.0,
            Toutput=tf.float32,
            input_quant_mode="SCALED",
        )
        return products_RN * step_R1 * self._scale_N


def quantize_columns(kernel_KN: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns a kernel as int8 [K, N], and the value of 1 in each column, float32."""
    largest_N = np.maximum(np.abs(kernel_KN).max(axis=0), 1e-30)
    scale_N = (largest_N / _LARGEST_WEIGHT).astype("float32")
    return np.round(kernel_KN / scale_N).astype("int8"), scale_N


class Int8Attention(MultiHeadAttention):
    """Attention whose four projections are of int8; the other's arguments."""

    def quantize_weights(self) -> list[keras.Variable]:
        """Quantizes the weights; returns those that are not read from then on."""
        query, output = self.query_kernel, self.output_kernel
        memory = self.key_kernel, self.value_kernel
        self._int8_kernels: dict[tuple[str, ...], Int8Kernel] = {
            ("query",): Int8Kernel(query),
            ("key", "value"): Int8Kernel(*memory),
            ("output",): Int8Kernel(output),
        }
        self._int8_qkv_kernel = Int8Kernel(super().fused_qkv_kernel())
        return [query, *memory, output]

    def fused_qkv_kernel(self) -> Int8Kernel:
        """Returns [D, H (2K + U)], the kernel for `project_fused`."""
        return self._int8_qkv_kernel

    def _multiply_fused(self, inputs: Tensor, fused_qkv_kernel: Int8Kernel) -> Tensor:
        return fused_qkv_kernel.multiply(inputs)

    def _multiply(self, inputs: Tensor, *names: str) -> list[Tensor]:
        sizes = [getattr(self, f"{name}_kernel").shape[1] for name in names]
        return tf.split(self._int8_kernels[names].multiply(inputs), sizes, axis=2)

    def _project(self, queries: Tensor, memory: Tensor | None) -> list[Tensor]:
        if memory is not None:
            return super()._project(queries, memory)
        # The kernel of decoding, too, so that there is only one.
        parts = self.project_fused(queries, self._int8_qkv_kernel)
        return [swap_heads(part) for part in parts]


class Int8FeedForward(FeedForward):
    """Feed-forward network of int8 products; the other's arguments."""

    def quantize_weights(self) -> list[keras.Variable]:
        """Quantizes the weights; returns those that are not read from then on."""
        kernels = [self.inner.kernel, self.outer.kernel]
        self._int8_inner, self._int8_outer = map(Int8Kernel, kernels)
        return kernels

    def call(self, inputs):
        inner = self._int8_inner.multiply(inputs) + self.inner.bias
        outer = self._int8_outer.multiply(self.inner.activation(inner))
        return outer + self.outer.bias


class _Table(NamedTuple):
    """Rows of a matrix in int8, for lookups.

    Attributes:
        integers: [V, D] int8.
        scale: [V] float32, the value of 1 in each row.
    """

    integers: keras.Variable
    scale: keras.Variable

    def fill(self, matrix: keras.Variable) -> None:
        """Assigns a matrix [V, D] float."""
        integers_DV, scale_V = quantize_columns(ops.convert_to_numpy(matrix).T)
        self.integers.assign(integers_DV.T)
        self.scale.assign(scale_V)

    def take(self, rows: Tensor) -> Tensor:
        """Returns the rows of these numbers, [..., D] float32 for [...] int."""
        integers = ops.cast(ops.take(self.integers, rows, axis=0), "float32")
        return integers * ops.take(self.scale, rows, axis=0)[..., None]


class Int8Embedding(SharedEmbedding):
    """Embedding with int8 matrices, and int8 logits; the other's arguments."""

    def build(self, tokens_shape=None):
        super().build(tokens_shape)
        self._inputs = self._add_table("int8_embeddings")
        self._outputs = (
            self._inputs if self.tie_output else self._add_table("int8_output_matrix")
        )

    def _add_table(self, name: str) -> _Table:
        def add(name: str, dtype: str, *shape: int) -> keras.Variable:
            return self.add_weight(shape, "zeros", dtype, trainable=False, name=name)

        size = self.vocabulary_size
        return _Table(
            add(name, "int8", size, self.d_model), add(f"{name}_scale", "float32", size)
        )

    def quantize_weights(self) -> list[keras.Variable]:
        """Quantizes the weights; returns those that are not read from then on."""
        self._inputs.fill(self.embeddings)
        self._outputs.fill(self.output_embeddings)
        self._kernel = Int8Kernel(ops.transpose(self.output_embeddings))
        return [self.embeddings, self.output_embeddings]

    def _look_up(self, tokens: Tensor) -> Tensor:
        return self._inputs.take(tokens)

    def output_kernel(self) -> Int8Kernel:
        """Returns [D, V], the kernel of `logits`."""
        return self._kernel

    def _multiply(self, hidden: Tensor, output_kernel: Any) -> Tensor:
        del output_kernel  # there is only one
        return self._kernel.multiply(hidden)

    def output_rows(self, tokens: Tensor) -> OutputRows:
        """Returns the output projection onto these tokens only, [B, N] int."""
        rows = super().output_rows(tokens)
        return rows._replace(matrix=self._outputs.take(tokens))


_INT8_CLASSES = {
    MultiHeadAttention: Int8Attention,
    FeedForward: Int8FeedForward,
    SharedEmbedding: Int8Embedding,
}


def _with_int8(layer: keras.layers.Layer) -> keras.layers.Layer:
    """Returns a layer with int8 products in place of a new one; others as they are."""
    int8_class = _INT8_CLASSES.get(type(layer))
    return layer if int8_class is None else int8_class.from_config(layer.get_config())


class _Int8Layers:
    """Makes the layers of a Transformer with int8 products where there are some."""

    def make_attention(self, **kwargs):
        return _with_int8(super().make_attention(**kwargs))

    def make_feed_forward(self, **kwargs):
        return _with_int8(super().make_feed_forward(**kwargs))

    def _make_embedding(self, *args, **kwargs):
        return _with_int8(super()._make_embedding(*args, **kwargs))

    def take_weights(self, model: Transformer) -> None:
        """Quantizes the weights of a model that has the same arguments."""
        originals = {weight.path: weight for weight in model.weights}
        for weight in self.weights:
            if weight.path in originals:
                weight.assign(originals[weight.path])
        self._parameters = model.count_params()
        self._replaced = {
            id(weight)
            for layer in self._flatten_layers()
            if isinstance(layer, tuple(_INT8_CLASSES.values()))
            for weight in layer.quantize_weights()
        }

    @property
    def weights(self):
        """The variables that the model reads; kernels of int8 are none."""
        replaced = getattr(self, "_replaced", ())
        return [each for each in super().weights if id(each) not in replaced]

    def count_params(self):
        """Returns the number of parameters before they were quantized."""
        return self._parameters


def quantize(model: Transformer) -> Transformer:
    """Returns a model for decoding that computes with the same weights in int8.

    Its attention, feed-forward networks and embeddings have int8 products. Layers of
    other classes, such as a subclass of `Transformer` may make, compute as before.

    Args:
        model: A model in float32.

    Raises:
        UserError: If TensorFlow has no such products in this process.
    """
    check_products()
    bases = _Int8Layers, type(model)
    int8_class: Any = type(f"Int8{type(model).__name__}", bases, {})
    quantized = int8_class(**model.sizes)
    quantized.take_weights(model)
    return quantized


def precision_of(model: Transformer) -> str:
    """Returns "int8" for a quantized model, or else the dtype that it computes in."""
    if isinstance(model, _Int8Layers):
        return "int8"
    return model.dtype_policy.compute_dtype


def check_products() -> None:
    """Raises `UserError` if TensorFlow has no products of int8 in this process."""
    try:
        Int8Kernel(np.ones((1, 1), "float32")).multiply(tf.ones([1, 1]))
    except tf.errors.OpError as error:
        raise UserError(
            "TensorFlow has no products of int8 in this process. They are oneDNN's, "
            "which it uses on x86 CPUs: by default on those with VNNI, on others if "
            "TF_ENABLE_ONEDNN_OPTS=1 is in the environment. Set it, or choose another "
            "precision, or the format ctranslate2."
        ) from error
