"""Multi-head scaled dot-product attention, self- or cross-attention (section 3.2).

Shapes: B batch, T queries, S keys, D model width, H heads, K size per head of
queries and keys, U size per head of values (the paper's d_v).
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t_keras.model.dropout import AttentionDropout
from t2t_keras.model.layers import project
from t2t_keras.typing import Tensor


def dot_product_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    drop: Callable[[Tensor], Tensor] = lambda weights_BHTS: weights_BHTS,
) -> Tensor:
    """Returns softmax(Q K^T / sqrt(d_k)) V, equation 1, for every head.

    The softmax is float32 for inputs of any dtype. A query that may attend to no key
    gets zeros, whatever its row is padded with.

    Args:
        queries: [B, H, T, K] float.
        keys: [B, H, K, S] float, transposed.
        values: [B, H, S, U] float.
        mask: bool that broadcasts to [B, T, S], True = may attend; None = all may.
        drop: Takes the weights [B, H, T, S] and returns those to sum values with.

    Returns:
        [B, H, T, U] in the dtype of `values`.
    """
    weights_BHTS = ops.cast(attention_weights(queries, keys, mask), values.dtype)
    return ops.matmul(drop(weights_BHTS), values)


def attention_weights(queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """Returns softmax(Q K^T / sqrt(d_k)), the weight of each value for each query.

    Args:
        queries: [B, H, T, K] float.
        keys: [B, H, K, S] float, transposed.
        mask: bool that broadcasts to [B, T, S], True = may attend; None = all may.

    Returns:
        [B, H, T, S] float32; zeros for a query that may attend to no key.
    """
    # Scales T x K numbers instead of the T x S scores.
    scaled = queries * ops.cast(queries.shape[-1] ** -0.5, queries.dtype)
    scores_BHTS = ops.cast(ops.matmul(scaled, keys), "float32")
    if mask is None:
        return ops.softmax(scores_BHTS, axis=-1)
    # Finite, not -inf: a row of only -inf would be NaN, and its gradient would poison
    # the whole batch.
    scores_BHTS = ops.where(ops.expand_dims(mask, axis=1), scores_BHTS, -1e9)
    sees_a_key = ops.expand_dims(ops.any(mask, axis=-1, keepdims=True), axis=1)
    return ops.where(sees_a_key, ops.softmax(scores_BHTS, axis=-1), 0.0)


@keras.saving.register_keras_serializable(package="t2t_keras")
class MultiHeadAttention(keras.layers.Layer):
    """Concat(head_1, ..., head_h) W_O over projected queries, keys and values.

    Section 3.2.2. The projections have no bias in the paper (ADR 0007). d_k and d_v
    are independent of each other and of D / H, as rows A and B of Table 3 need.

    Args:
        num_heads: h.
        d_k: Size of queries and keys per head.
        d_v: Size of values per head.
        dropout_rate: Fraction of the weights to drop, in [0, 1) (section 6.3 names it).
        use_bias: Whether the four projections have biases.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        queries: [B, T, D] float.
        memory: [B, S, D] float, the input of keys and values (cross-attention); None
            for the queries themselves (self-attention).
        attention_mask: bool that broadcasts to [B, T, S], True = may attend.
        dropout_keys: [B] uint32, one key per row, or None to drop nothing.

    Returns:
        [B, T, D].

    Decoding calls the parts: `project_keys_values` once for the encoder's output, then
    `project_fused` or `project_queries`, and `attend`, for each new token. All of them
    have the head axis before the positions: the scores of a head are one product of two
    matrices, and a KV cache is read without a transpose.
    """

    def __init__(
        self,
        num_heads: int,
        d_k: int,
        d_v: int,
        dropout_rate: float = 0.0,
        use_bias: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_k = d_k
        self.d_v = d_v
        self.use_bias = use_bias
        self.dropout = AttentionDropout(
            dropout_rate, name="dropout", dtype=self.dtype_policy
        )

    def build(self, queries_shape, memory_shape=None):
        d_model, heads = queries_shape[-1], self.num_heads
        sizes = {
            "query": (d_model, heads * self.d_k),
            "key": (d_model, heads * self.d_k),
            "value": (d_model, heads * self.d_v),
            "output": (heads * self.d_v, d_model),
        }
        for name, shape in sizes.items():
            # Two axes, not three: Glorot's fans are then the paper's D and h d_k.
            kernel = self.add_weight(
                name=f"{name}_kernel",
                shape=shape,
                initializer=keras.initializers.GlorotUniform(),
            )
            setattr(self, f"{name}_kernel", kernel)
        if self.use_bias:
            for name, shape in sizes.items():
                bias = self.add_weight(
                    name=f"{name}_bias", shape=shape[1:], initializer="zeros"
                )
                setattr(self, f"{name}_bias", bias)
        self.dropout.build((None, heads, None, None))
        self.built = True

    def call(self, queries, memory=None, attention_mask=None, dropout_keys=None):
        def drop(weights_BHTS):
            return self.dropout(weights_BHTS, dropout_keys=dropout_keys)

        queries, keys, values = self._project(queries, memory)
        attended = dot_product_attention(
            swap_heads(queries),
            transpose_keys(keys),
            swap_heads(values),
            attention_mask,
            drop,
        )
        return self._join_heads(swap_heads(attended))

    def project_queries(self, inputs: Tensor) -> Tensor:
        """Returns the queries [B, H, T, K] of inputs [B, T, D]."""
        (queries,) = self._split_heads(inputs, "query")
        return swap_heads(queries)

    def project_keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the keys [B, H, S, K] and values [B, H, S, U] of a memory."""
        keys, values = self._split_heads(memory, "key", "value")
        return swap_heads(keys), swap_heads(values)

    def fused_qkv_kernel(self) -> Any:
        """Returns [D, H (2K + U)], the kernel for `project_fused`.

        The columns of a head are together: those of its query, its key and its value.
        Concatenated once, not at every step: a step has few rows, and copying the
        kernels would take as long as the product.
        """
        return self._fuse(self.query_kernel, self.key_kernel, self.value_kernel)

    def _fuse(self, *parts: Tensor) -> Tensor:
        """Returns [N, H (2K + U)] for the parts of queries, keys and values."""
        rows, heads = parts[0].shape[0], self.num_heads
        by_head = [
            ops.reshape(ops.cast(part, self.compute_dtype), (rows, heads, -1))
            for part in parts
        ]
        return ops.reshape(ops.concatenate(by_head, axis=2), (rows, -1))

    def project_fused(
        self, inputs: Tensor, fused_qkv_kernel: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries [B, H, L, K], keys [B, H, L, K] and values [B, H, L, U].

        Args:
            inputs: [B, L, D] float, new tokens in self-attention.
            fused_qkv_kernel: From the method of that name.
        """
        fused = self._multiply_fused(inputs, fused_qkv_kernel)
        if self.use_bias:
            biases = self.query_bias, self.key_bias, self.value_bias
            fused += self._fuse(*(ops.expand_dims(bias, axis=0) for bias in biases))
        batch, length = ops.shape(inputs)[:2]
        heads, width = self.num_heads, 2 * self.d_k + self.d_v
        by_head = swap_heads(ops.reshape(fused, (batch, length, heads, width)))
        queries, keys, values = ops.split(by_head, [self.d_k, 2 * self.d_k], axis=3)
        return queries, keys, values

    def _multiply_fused(self, inputs: Tensor, fused_qkv_kernel: Any) -> Tensor:
        """Returns [B, L, H (2K + U)], the inputs [B, L, D] times the fused kernel."""
        (fused,) = project(ops.cast(inputs, self.compute_dtype), fused_qkv_kernel)
        return fused

    def _multiply(self, inputs: Tensor, *names: str) -> list[Tensor]:
        """Returns the inputs [B, L, D] times each kernel of these names, [B, L, N]."""
        kernels = [getattr(self, f"{name}_kernel") for name in names]
        return project(ops.cast(inputs, self.compute_dtype), *kernels)

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Returns the attention of all heads, concatenated and times W_O, [B, T, D].

        Args:
            queries: [B, H, T, K] float.
            keys: [B, H, S, K] float, as a KV cache holds them.
            values: [B, H, S, U] float.
            mask: bool that broadcasts to [B, T, S], True = may attend; None = all may.
        """
        keys = ops.swapaxes(keys, 2, 3)
        return self._join_heads(
            swap_heads(dot_product_attention(queries, keys, values, mask))
        )

    def compute_weights(
        self, queries: Tensor, memory: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        """Returns the weights [B, H, T, S] float32 that `call` sums values with."""
        queries, keys, _ = self._project(queries, memory)
        return attention_weights(swap_heads(queries), transpose_keys(keys), mask)

    def _project(self, queries: Tensor, memory: Tensor | None) -> list[Tensor]:
        """Returns queries, keys and values of all heads, [B, L, H, size of a head]."""
        if memory is None:
            return self._split_heads(queries, "query", "key", "value")
        return [
            *self._split_heads(queries, "query"),
            *self._split_heads(memory, "key", "value"),
        ]

    def _split_heads(self, inputs: Tensor, *names: str) -> list[Tensor]:
        """Returns [B, L, H, size of a head] for each projection, by one product."""
        projected = self._multiply(inputs, *names)
        if self.use_bias:
            projected = [
                part + self._bias(name, part.dtype)
                for part, name in zip(projected, names, strict=True)
            ]
        batch, length = ops.shape(inputs)[:2]
        heads = self.num_heads
        return [
            ops.reshape(part, (batch, length, heads, part.shape[-1] // heads))
            for part in projected
        ]

    def _bias(self, name: str, dtype: str) -> Tensor:
        """Returns the bias of a projection; that of the keys has gradient zero."""
        bias = ops.cast(getattr(self, f"{name}_bias"), dtype)
        if name != "key":
            return bias
        # It adds the same to all scores of a query, which softmax does not notice. Adam
        # would make whole steps of what rounding leaves of its gradient. The second
        # term makes that zeros, which optimizers want, instead of none.
        return ops.stop_gradient(bias) + 0.0 * bias

    def _join_heads(self, heads_BTHU: Tensor) -> Tensor:
        """Returns the heads, concatenated and times W_O."""
        batch, length = ops.shape(heads_BTHU)[:2]
        joined = ops.reshape(heads_BTHU, (batch, length, self.num_heads * self.d_v))
        (outputs,) = self._multiply(joined, "output")
        if self.use_bias:
            outputs += ops.cast(self.output_bias, outputs.dtype)
        return outputs

    def compute_output_shape(self, queries_shape, memory_shape=None):
        return queries_shape

    def get_config(self):
        sizes = {"num_heads": self.num_heads, "d_k": self.d_k, "d_v": self.d_v}
        rest = {"dropout_rate": self.dropout.dropout_rate, "use_bias": self.use_bias}
        return {**super().get_config(), **sizes, **rest}


def swap_heads(parts: Tensor) -> Tensor:
    """Returns [B, H, L, K] for [B, L, H, K], and the reverse."""
    return ops.transpose(parts, (0, 2, 1, 3))


def transpose_keys(keys: Tensor) -> Tensor:
    """Returns [B, H, K, S] for keys [B, S, H, K].

    In one transpose: TensorFlow folds a second one, of the last two axes, into the
    product, which then rounds differently with XLA.
    """
    return ops.transpose(keys, (0, 2, 3, 1))
