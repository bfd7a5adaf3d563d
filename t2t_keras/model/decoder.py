"""Decoder: N layers of self-attention, cross-attention and feed-forward (section 3.1).

Shapes: B batch, T target length, S source length, D model width, W beams, X
slots of a KV cache, H heads, K size per head of keys, U of values.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras

from t2t_keras.model.dropout import DecoderLayerSite, fold_in
from t2t_keras.model.kv_cache import KVCache
from t2t_keras.model.layer_parts import LayerParts, OptionsLayer
from t2t_keras.model.stack import Stack
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
class DecoderLayer(OptionsLayer):
    """Masked self-attention, cross-attention to the encoder's output, feed-forward.

    Section 3.1.

    Args:
        options: Such as `LayerOptions(d_model=64, num_heads=4, d_ff=256)`.
        parts: Object whose methods make the parts, such as a Transformer. Default: the
            layer itself.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        hidden: [B, T, D] float.
        memory: [B, S, D] float, the paper's name for the encoder's output.
        attention_mask: bool that broadcasts to [B, T, T], such as `causal_mask(T)`,
            True = may attend. Default: a position sees all, later ones too.
        memory_mask: bool that broadcasts to [B, T, S], True = may attend.
        dropout_keys: [B] uint32, or None to drop nothing.
        with_attention: Whether to return the weights of cross-attention too.

    Returns:
        [B, T, D]; with `with_attention` also [B, H, T, S] float32.
    """

    def add_parts(self, parts: LayerParts) -> None:
        policy = self.dtype_policy
        # Names of layers are in the paths of their weights in checkpoints.
        self.attention = parts.make_attention(name="attention", dtype=policy)
        self.cross_attention = parts.make_attention(
            name="memory_attention", dtype=policy
        )
        self.feed_forward = parts.make_feed_forward(name="feed_forward", dtype=policy)
        self.attention_residual = parts.make_residual(
            name="attention_residual", dtype=policy
        )
        self.cross_residual = parts.make_residual(name="memory_residual", dtype=policy)
        self.feed_forward_residual = parts.make_residual(
            name="feed_forward_residual", dtype=policy
        )

    def build(self, hidden_shape, memory_shape=None):
        self.check_width(hidden_shape)
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
                dropout_keys=fold_in(
                    dropout_keys, DecoderLayerSite.CROSS_ATTENTION_WEIGHTS
                ),
            )

        hidden = self._apply_sublayers(
            hidden,
            lambda x: self.attention(
                x,
                attention_mask=attention_mask,
                dropout_keys=fold_in(dropout_keys, DecoderLayerSite.ATTENTION_WEIGHTS),
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
        sites = DecoderLayerSite
        for sublayer, residual, site in (
            (attend, self.attention_residual, sites.ATTENTION),
            (attend_to_memory, self.cross_residual, sites.CROSS_ATTENTION),
            (self.feed_forward, self.feed_forward_residual, sites.FEED_FORWARD),
        ):
            outputs = sublayer(residual.sublayer_inputs(hidden))
            hidden = residual(hidden, outputs, dropout_keys=fold_in(dropout_keys, site))
        return hidden

    def compute_output_shape(self, hidden_shape, memory_shape=None):
        return hidden_shape


@keras.saving.register_keras_serializable(package="t2t_keras")
class Decoder(Stack):
    """A stack of decoder layers, with pre-norm followed by a normalization.

    Args: those of `Stack`.

    Call args: those of `DecoderLayer`. With `with_attention`, the weights are those of
    `alignment_layer`.

    Returns:
        As `DecoderLayer`.
    """

    def build(self, hidden_shape, memory_shape=None):
        self.build_layers(hidden_shape, memory_shape)
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
        return [
            KVCache.empty(
                batch,
                layer.attention.num_heads,
                slots,
                layer.attention.d_k,
                layer.attention.d_v,
                layer.compute_dtype,
            )
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

    def compute_output_shape(self, hidden_shape, memory_shape=None):
        return hidden_shape
