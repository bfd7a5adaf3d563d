"""The decoder: N layers that also attend to the encoder's output (section 3.1).

Shapes: B batch, T target length, S source length, D model width, W beams, X
keys that a beam may look at, H heads, K size per head of keys, U of values.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras

from t2t_keras.model.attention import MultiHeadAttention, swap_heads
from t2t_keras.model.dropout import fold_in
from t2t_keras.model.feed_forward import FeedForward
from t2t_keras.model.residual import ResidualNorm
from t2t_keras.typing import Tensor

LayerCache = dict[str, Tensor]


# Takes the keys [B, W, H, K] and values [B, W, H, U] of the newest tokens; returns
# those of all that there are, [B, H, X, K] and [B, H, X, U]. Where they are kept is
# not a layer's business.
ExtendFn = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class DecodeMasks(NamedTuple):
    """What the newest tokens may attend to: the same in all layers.

    Attributes:
        mask: [B, W, X] bool, True on a beam's own past and on its newest token.
        memory_mask: bool that broadcasts to [B, W, S], True on real source tokens.
    """

    mask: Tensor
    memory_mask: Tensor


@keras.saving.register_keras_serializable(package="t2t_keras")
class DecoderLayer(keras.layers.Layer):
    """Masked self-attention, cross-attention to the memory, then feed-forward.

    Args:
        num_heads: h.
        d_k: Size of queries and keys per head.
        d_v: Size of values per head.
        d_ff: Inner width of the feed-forward network.
        dropout_rate: P_drop of the three sub-layers' outputs.
        attention_dropout_rate: Share of the attention weights to drop.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        hidden: [B, T, D] float.
        memory: [B, S, D] float, the encoder's output.
        attention_mask: bool that broadcasts to [B, T, T], the causal mask.
        memory_mask: bool that broadcasts to [B, T, S], True = may attend.
        dropout_keys: [B] uint32, or None to drop nothing.

    Returns:
        [B, T, D].
    """

    def __init__(
        self,
        num_heads: int,
        d_k: int,
        d_v: int,
        d_ff: int,
        dropout_rate: float,
        attention_dropout_rate: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.sizes = {"num_heads": num_heads, "d_k": d_k, "d_v": d_v}
        self.d_ff = d_ff
        self.dropout_rate = dropout_rate
        self.attention_dropout_rate = attention_dropout_rate
        policy = self.dtype_policy
        self.attention, self.memory_attention = (
            MultiHeadAttention(
                num_heads, d_k, d_v, attention_dropout_rate, name=name, dtype=policy
            )
            for name in ("attention", "memory_attention")
        )
        self.feed_forward = FeedForward(d_ff, name="feed_forward", dtype=policy)
        self.attention_residual, self.memory_residual, self.feed_forward_residual = (
            ResidualNorm(dropout_rate, name=name, dtype=policy)
            for name in (
                "attention_residual",
                "memory_residual",
                "feed_forward_residual",
            )
        )

    def build(self, hidden_shape, memory_shape=None):
        self.attention.build(hidden_shape, hidden_shape)
        self.memory_attention.build(hidden_shape, memory_shape or hidden_shape)
        self.feed_forward.build(hidden_shape)
        self.attention_residual.build(hidden_shape)
        self.memory_residual.build(hidden_shape)
        self.feed_forward_residual.build(hidden_shape)
        self.built = True

    def call(
        self,
        hidden,
        memory,
        attention_mask=None,
        memory_mask=None,
        dropout_keys=None,
    ):
        return self._sublayers(
            hidden,
            lambda x: self.attention(
                x,
                attention_mask=attention_mask,
                dropout_keys=fold_in(dropout_keys, 3),
            ),
            lambda x: self.memory_attention(
                x,
                memory,
                attention_mask=memory_mask,
                dropout_keys=fold_in(dropout_keys, 4),
            ),
            dropout_keys,
        )

    def step(
        self,
        hidden: Tensor,
        masks: DecodeMasks,
        extend: ExtendFn,
        memory_cache: LayerCache,
        fused_qkv_kernel: Tensor,
    ) -> Tensor:
        """Returns what `call` would at one position, [B, W, D].

        The W beams of a sentence stand where `call` has T positions. To the past, as
        to the memory, a beam is just one more query: no key or value is copied for
        each beam, nor moved when beams change places.

        Args:
            hidden: [B, W, D] float, the newest token of each beam.
            masks: What each beam may attend to.
            extend: Keeps keys and values of the newest tokens.
            memory_cache: "keys" [B, H, S, K] and "values" [B, H, S, U].
            fused_qkv_kernel: Of self-attention, from the method of that name.
        """
        queries, *newest = self.attention.project_fused(hidden, fused_qkv_kernel)
        keys, values = extend(*map(swap_heads, newest))
        return self._sublayers(
            hidden,
            lambda _: self.attention.attend(queries, keys, values, masks.mask),
            lambda x: self.memory_attention.attend(
                self.memory_attention.project_queries(x),
                memory_cache["keys"],
                memory_cache["values"],
                masks.memory_mask,
            ),
            None,
        )

    def _sublayers(
        self,
        hidden: Tensor,
        attend: Callable[[Tensor], Tensor],
        attend_to_memory: Callable[[Tensor], Tensor],
        dropout_keys: Tensor | None,
    ) -> Tensor:
        """Returns the three sub-layers' result, however attention is computed."""
        hidden = self.attention_residual(
            hidden, attend(hidden), dropout_keys=fold_in(dropout_keys, 0)
        )
        hidden = self.memory_residual(
            hidden, attend_to_memory(hidden), dropout_keys=fold_in(dropout_keys, 1)
        )
        return self.feed_forward_residual(
            hidden, self.feed_forward(hidden), dropout_keys=fold_in(dropout_keys, 2)
        )

    def compute_output_shape(self, hidden_shape, memory_shape=None):
        return hidden_shape

    def get_config(self):
        rest = {
            "d_ff": self.d_ff,
            "dropout_rate": self.dropout_rate,
            "attention_dropout_rate": self.attention_dropout_rate,
        }
        return {**super().get_config(), **self.sizes, **rest}


@keras.saving.register_keras_serializable(package="t2t_keras")
class Decoder(keras.layers.Layer):
    """A stack of N decoder layers.

    Args:
        num_layers: N.
        num_heads: h.
        d_k: Size of queries and keys per head.
        d_v: Size of values per head.
        d_ff: Inner width of the feed-forward networks.
        dropout_rate: P_drop of the sub-layers' outputs.
        attention_dropout_rate: Share of the attention weights to drop.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args: those of `DecoderLayer`.

    Returns:
        [B, T, D].
    """

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        d_k: int,
        d_v: int,
        d_ff: int,
        dropout_rate: float,
        attention_dropout_rate: float = 0.0,
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
        }
        self.layers = [
            DecoderLayer(
                **self.layer_config, name=f"layer_{i}", dtype=self.dtype_policy
            )
            for i in range(num_layers)
        ]

    def build(self, hidden_shape, memory_shape=None):
        for layer in self.layers:
            layer.build(hidden_shape, memory_shape)
        self.built = True

    def call(
        self,
        hidden,
        memory,
        attention_mask=None,
        memory_mask=None,
        dropout_keys=None,
    ):
        for i, layer in enumerate(self.layers):
            hidden = layer(
                hidden,
                memory,
                attention_mask=attention_mask,
                memory_mask=memory_mask,
                dropout_keys=fold_in(dropout_keys, i),
            )
        return hidden

    def memory_caches(self, memory: Tensor) -> list[LayerCache]:
        """Returns each layer's "keys" and "values" of a memory [B, S, D]."""
        pairs = [
            layer.memory_attention.project_keys_values(memory) for layer in self.layers
        ]
        return [{"keys": keys, "values": values} for keys, values in pairs]

    def fused_qkv_kernels(self) -> list[Tensor]:
        """Returns each layer's `MultiHeadAttention.fused_qkv_kernel`."""
        return [layer.attention.fused_qkv_kernel() for layer in self.layers]

    def step(
        self,
        hidden: Tensor,
        masks: DecodeMasks,
        extend: Sequence[ExtendFn],
        memory_caches: Sequence[LayerCache],
        fused_qkv_kernels: Sequence[Tensor],
    ) -> Tensor:
        """Returns `DecoderLayer.step` through the whole stack, [B, W, D].

        Args: those of `DecoderLayer.step`, for each layer what is its own.
        """
        own = zip(self.layers, extend, memory_caches, fused_qkv_kernels, strict=True)
        for layer, extend_own, memory_cache, kernel in own:
            hidden = layer.step(hidden, masks, extend_own, memory_cache, kernel)
        return hidden

    def compute_output_shape(self, hidden_shape, memory_shape=None):
        return hidden_shape

    def get_config(self):
        config = {"num_layers": len(self.layers), **self.layer_config}
        return {**super().get_config(), **config}
