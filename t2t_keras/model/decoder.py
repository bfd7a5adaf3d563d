"""Decoder: N layers of self-attention, cross-attention and feed-forward (section 3.1).

Shapes: B batch, T target length, S source length, D model width, W beams, X
slots of a KV cache, H heads, K size per head of keys, U of values.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras

from t2t_keras.model.attention import MultiHeadAttention
from t2t_keras.model.dropout import fold_in
from t2t_keras.model.kv_cache import KVCache
from t2t_keras.model.layers import (
    LAYER_NORM_EPSILON,
    FeedForward,
    ResidualNorm,
    final_norm,
)
from t2t_keras.typing import Tensor


class DecodeContext(NamedTuple):
    """Arguments of a decoding step that are the same for all layers.

    Attributes:
        rows: [B H W] int32, where the beams write to; see `KVCache.rows`.
        visible_slots: [B, W, X] bool, True on the slots that a beam may attend to:
            those of its past tokens and of its newest.
        source_mask: bool that broadcasts to [B, W, S], True on real source tokens.
    """

    rows: Tensor
    visible_slots: Tensor
    source_mask: Tensor


@keras.saving.register_keras_serializable(package="t2t_keras")
class DecoderLayer(keras.layers.Layer):
    """Masked self-attention, cross-attention to the encoder's output, feed-forward.

    Args:
        num_heads: h.
        d_k: Size of queries and keys per head.
        d_v: Size of values per head.
        d_ff: Inner width of the feed-forward network.
        dropout_rate: P_drop of the three sub-layers' outputs.
        attention_dropout_rate: Fraction of the attention weights to drop.
        attention_bias: Whether the projections of attention have biases.
        activation: Activation of the feed-forward network; see `FeedForward`.
        normalization: "post" or "pre"; see `ResidualNorm`.
        layer_norm_epsilon: Added to the variance in layer normalization.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        hidden: [B, T, D] float.
        memory: [B, S, D] float, the paper's name for the encoder's output.
        attention_mask: bool that broadcasts to [B, T, T], the causal mask.
        memory_mask: bool that broadcasts to [B, T, S], True = may attend.
        dropout_keys: [B] uint32, or None to drop nothing.
        with_attention: Whether to return the weights of cross-attention too.

    Returns:
        [B, T, D]; with `with_attention` also [B, H, T, S] float32.
    """

    def __init__(  # noqa: PLR0913 - every option of its parts
        self,
        num_heads: int,
        d_k: int,
        d_v: int,
        d_ff: int,
        dropout_rate: float,
        attention_dropout_rate: float = 0.0,
        attention_bias: bool = False,
        activation: str = "relu",
        normalization: str = "post",
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.layer_config = {
            "num_heads": num_heads,
            "d_k": d_k,
            "d_v": d_v,
            "d_ff": d_ff,
            "dropout_rate": dropout_rate,
            "attention_dropout_rate": attention_dropout_rate,
            "attention_bias": attention_bias,
            "activation": activation,
            "normalization": normalization,
            "layer_norm_epsilon": layer_norm_epsilon,
        }
        policy = self.dtype_policy
        # Names of layers are in the paths of their weights in checkpoints.
        attention = num_heads, d_k, d_v, attention_dropout_rate, attention_bias
        self.attention, self.cross_attention = (
            MultiHeadAttention(*attention, name=name, dtype=policy)
            for name in ("attention", "memory_attention")
        )
        self.feed_forward = FeedForward(
            d_ff, activation, name="feed_forward", dtype=policy
        )
        norm = dropout_rate, normalization, layer_norm_epsilon
        self.attention_residual, self.cross_residual, self.feed_forward_residual = (
            ResidualNorm(*norm, name=name, dtype=policy)
            for name in (
                "attention_residual",
                "memory_residual",
                "feed_forward_residual",
            )
        )

    def build(self, hidden_shape, memory_shape=None):
        self.attention.build(hidden_shape, hidden_shape)
        self.cross_attention.build(hidden_shape, memory_shape or hidden_shape)
        self.feed_forward.build(hidden_shape)
        self.attention_residual.build(hidden_shape)
        self.cross_residual.build(hidden_shape)
        self.feed_forward_residual.build(hidden_shape)
        self.built = True

    def call(
        self,
        hidden,
        memory,
        attention_mask=None,
        memory_mask=None,
        dropout_keys=None,
        with_attention=False,
    ):
        weights = None

        def attend_to_memory(inputs: Tensor) -> Tensor:
            nonlocal weights
            if with_attention:
                # Computes queries and keys again, which a compiler notices.
                weights = self.cross_attention.compute_weights(
                    inputs, memory, memory_mask
                )
            return self.cross_attention(
                inputs,
                memory,
                attention_mask=memory_mask,
                dropout_keys=fold_in(dropout_keys, 4),
            )

        hidden = self._apply_sublayers(
            hidden,
            lambda x: self.attention(
                x,
                attention_mask=attention_mask,
                dropout_keys=fold_in(dropout_keys, 3),
            ),
            attend_to_memory,
            dropout_keys,
        )
        return (hidden, weights) if with_attention else hidden

    def step(
        self,
        hidden: Tensor,
        context: DecodeContext,
        cache: KVCache,
        cross_attention_cache: KVCache,
        fused_qkv_kernel: Tensor,
    ) -> tuple[Tensor, KVCache]:
        """Returns the output of `call` at one position, [B, W, D], and the new cache.

        The W beams of a sentence take the place of the T positions of `call`.

        Args:
            hidden: [B, W, D] float, the newest token of each beam.
            context: Arguments that are the same for all layers.
            cache: Keys and values of self-attention, up to the token before.
            cross_attention_cache: Keys and values of the encoder's output.
            fused_qkv_kernel: `MultiHeadAttention.fused_qkv_kernel` of self-attention.
        """

        def attend(inputs: Tensor) -> Tensor:
            nonlocal cache
            queries, keys, values = self.attention.project_fused(
                inputs, fused_qkv_kernel
            )
            cache = cache.write(keys, values, context.rows)
            return self.attention.attend(queries, *cache, context.visible_slots)

        hidden = self._apply_sublayers(
            hidden,
            attend,
            lambda x: self.cross_attention.attend(
                self.cross_attention.project_queries(x),
                *cross_attention_cache,
                context.source_mask,
            ),
            None,
        )
        return hidden, cache

    def _apply_sublayers(
        self,
        hidden: Tensor,
        attend: Callable[[Tensor], Tensor],
        attend_to_memory: Callable[[Tensor], Tensor],
        dropout_keys: Tensor | None,
    ) -> Tensor:
        """Returns the output of the three sub-layers, for two attention functions."""
        sublayers = (
            (attend, self.attention_residual),
            (attend_to_memory, self.cross_residual),
            (self.feed_forward, self.feed_forward_residual),
        )
        for number, (sublayer, residual) in enumerate(sublayers):
            outputs = sublayer(residual.sublayer_inputs(hidden))
            hidden = residual(
                hidden, outputs, dropout_keys=fold_in(dropout_keys, number)
            )
        return hidden

    def compute_output_shape(self, hidden_shape, memory_shape=None):
        return hidden_shape

    def get_config(self):
        return {**super().get_config(), **self.layer_config}


@keras.saving.register_keras_serializable(package="t2t_keras")
class Decoder(keras.layers.Layer):
    """A stack of N decoder layers, with pre-norm followed by a layer normalization.

    Args:
        num_layers: N.
        num_heads: h.
        d_k: Size of queries and keys per head.
        d_v: Size of values per head.
        d_ff: Inner width of the feed-forward networks.
        dropout_rate: P_drop of the sub-layers' outputs.
        attention_dropout_rate: Fraction of the attention weights to drop.
        attention_bias: Whether the projections of attention have biases.
        activation: Activation of the feed-forward network; see `FeedForward`.
        normalization: "post" or "pre"; see `ResidualNorm`.
        layer_norm_epsilon: Added to the variance in layer normalization.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args: those of `DecoderLayer`. With `with_attention`, the weights are those of
    `alignment_layer`.

    Returns:
        As `DecoderLayer`.
    """

    def __init__(  # noqa: PLR0913 - every option of its parts
        self,
        num_layers: int,
        num_heads: int,
        d_k: int,
        d_v: int,
        d_ff: int,
        dropout_rate: float,
        attention_dropout_rate: float = 0.0,
        attention_bias: bool = False,
        activation: str = "relu",
        normalization: str = "post",
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.layer_config = {
            "num_heads": num_heads,
            "d_k": d_k,
            "d_v": d_v,
            "d_ff": d_ff,
            "dropout_rate": dropout_rate,
            "attention_dropout_rate": attention_dropout_rate,
            "attention_bias": attention_bias,
            "activation": activation,
            "normalization": normalization,
            "layer_norm_epsilon": layer_norm_epsilon,
        }
        self.layers = [
            DecoderLayer(
                **self.layer_config, name=f"layer_{i}", dtype=self.dtype_policy
            )
            for i in range(num_layers)
        ]
        self.norm = final_norm(normalization, layer_norm_epsilon, self.dtype_policy)

    def build(self, hidden_shape, memory_shape=None):
        for layer in self.layers:
            layer.build(hidden_shape, memory_shape)
        if self.norm is not None:
            self.norm.build(hidden_shape)
        self.built = True

    def call(
        self,
        hidden,
        memory,
        attention_mask=None,
        memory_mask=None,
        dropout_keys=None,
        with_attention=False,
    ):
        weights = None
        for i, layer in enumerate(self.layers):
            returns_weights = with_attention and i == self.alignment_layer
            hidden = layer(
                hidden,
                memory,
                attention_mask=attention_mask,
                memory_mask=memory_mask,
                dropout_keys=fold_in(dropout_keys, i),
                with_attention=returns_weights,
            )
            if returns_weights:
                hidden, weights = hidden
        hidden = self.normalize(hidden)
        return (hidden, weights) if with_attention else hidden

    @property
    def alignment_layer(self) -> int:
        """Index of the layer that aligns words: the last but one, or the only one."""
        return max(len(self.layers) - 2, 0)

    def empty_caches(self, batch: int | Tensor, slots: int | Tensor) -> list[KVCache]:
        """Returns each layer's self-attention cache before the first token."""
        num_heads, d_k, d_v = (
            self.layer_config[name] for name in ("num_heads", "d_k", "d_v")
        )
        return [
            KVCache.empty(batch, num_heads, slots, d_k, d_v, layer.compute_dtype)
            for layer in self.layers
        ]

    def cross_attention_caches(self, memory: Tensor) -> list[KVCache]:
        """Returns each layer's keys and values of the encoder's output [B, S, D]."""
        return [
            KVCache(*layer.cross_attention.project_keys_values(memory))
            for layer in self.layers
        ]

    def fused_qkv_kernels(self) -> list[Tensor]:
        """Returns each layer's `MultiHeadAttention.fused_qkv_kernel`."""
        return [layer.attention.fused_qkv_kernel() for layer in self.layers]

    def step(
        self,
        hidden: Tensor,
        context: DecodeContext,
        caches: Sequence[KVCache],
        cross_attention_caches: Sequence[KVCache],
        fused_qkv_kernels: Sequence[Tensor],
    ) -> tuple[Tensor, list[KVCache]]:
        """Returns `DecoderLayer.step` of the whole stack: [B, W, D], and all caches.

        Args: those of `DecoderLayer.step`, with one cache or kernel for each layer.
        """
        new_caches = []
        for layer, *own in zip(
            self.layers, caches, cross_attention_caches, fused_qkv_kernels, strict=True
        ):
            hidden, cache = layer.step(hidden, context, *own)
            new_caches.append(cache)
        return self.normalize(hidden), new_caches

    def normalize(self, hidden: Tensor) -> Tensor:
        """Returns the output of the stack for that of its last layer."""
        return hidden if self.norm is None else self.norm(hidden)

    def compute_output_shape(self, hidden_shape, memory_shape=None):
        return hidden_shape

    def get_config(self):
        config = {"num_layers": len(self.layers), **self.layer_config}
        return {**super().get_config(), **config}
