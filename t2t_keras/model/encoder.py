"""Encoder: N layers of self-attention and feed-forward (section 3.1).

Shapes: B batch, S source length, D model width.
"""

import keras

from t2t_keras.model.attention import MultiHeadAttention
from t2t_keras.model.dropout import fold_in
from t2t_keras.model.layers import (
    LAYER_NORM_EPSILON,
    FeedForward,
    ResidualNorm,
    final_norm,
)
from t2t_keras.model.neighborhood_attention import NeighborhoodAttention
from t2t_keras.typing import Tensor


@keras.saving.register_keras_serializable(package="t2t_keras")
class EncoderLayer(keras.layers.Layer):
    """Self-attention, then feed-forward, each with its residual and norm.

    Args:
        num_heads: h.
        d_k: Size of queries and keys per head.
        d_v: Size of values per head.
        d_ff: Inner width of the feed-forward network.
        dropout_rate: P_drop of both sub-layers' outputs.
        attention_dropout_rate: Fraction of the attention weights to drop.
        attention_bias: Whether the projections of attention have biases.
        activation: Activation of the feed-forward network; see `FeedForward`.
        normalization: "post" or "pre"; see `ResidualNorm`.
        layer_norm_epsilon: Added to the variance in layer normalization.
        neighborhood: r of restricted self-attention; None for all positions.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        hidden: [B, S, D] float.
        attention_mask: bool that broadcasts to [B, S, S], True = may attend; with a
            neighborhood, see `NeighborhoodAttention`.
        dropout_keys: [B] uint32, or None to drop nothing.

    Returns:
        [B, S, D].
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
        neighborhood: int | None = None,
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
            "neighborhood": neighborhood,
        }
        policy = self.dtype_policy
        rest = {
            "dropout_rate": attention_dropout_rate,
            "use_bias": attention_bias,
            "name": "attention",
            "dtype": policy,
        }
        self.attention = (
            MultiHeadAttention(num_heads, d_k, d_v, **rest)
            if neighborhood is None
            else NeighborhoodAttention(num_heads, d_k, d_v, neighborhood, **rest)
        )
        norm = dropout_rate, normalization, layer_norm_epsilon
        self.attention_residual = ResidualNorm(
            *norm, name="attention_residual", dtype=policy
        )
        self.feed_forward = FeedForward(
            d_ff, activation, name="feed_forward", dtype=policy
        )
        self.feed_forward_residual = ResidualNorm(
            *norm, name="feed_forward_residual", dtype=policy
        )

    def build(self, hidden_shape):
        self.attention.build(hidden_shape)
        self.attention_residual.build(hidden_shape)
        self.feed_forward.build(hidden_shape)
        self.feed_forward_residual.build(hidden_shape)
        self.built = True

    def call(self, hidden, attention_mask=None, dropout_keys=None):
        attended = self.attention(
            self.attention_residual.sublayer_inputs(hidden),
            attention_mask=attention_mask,
            dropout_keys=fold_in(dropout_keys, 2),
        )
        hidden = self.attention_residual(
            hidden, attended, dropout_keys=fold_in(dropout_keys, 0)
        )
        inputs = self.feed_forward_residual.sublayer_inputs(hidden)
        return self.feed_forward_residual(
            hidden, self.feed_forward(inputs), dropout_keys=fold_in(dropout_keys, 1)
        )

    def compute_output_shape(self, hidden_shape):
        return hidden_shape

    def get_config(self):
        return {**super().get_config(), **self.layer_config}


@keras.saving.register_keras_serializable(package="t2t_keras")
class Encoder(keras.layers.Layer):
    """A stack of N encoder layers, with pre-norm followed by a layer normalization.

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
        neighborhood: r of restricted self-attention; None for all positions.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        hidden: [B, S, D] float, embeddings with positions.
        attention_mask: bool that broadcasts to [B, S, S], True = may attend; with a
            neighborhood, see `NeighborhoodAttention`.
        dropout_keys: [B] uint32, or None to drop nothing.

    Returns:
        [B, S, D], the decoder's memory.
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
        neighborhood: int | None = None,
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
            "neighborhood": neighborhood,
        }
        self.layers = [
            EncoderLayer(
                **self.layer_config, name=f"layer_{i}", dtype=self.dtype_policy
            )
            for i in range(num_layers)
        ]
        self.norm = final_norm(normalization, layer_norm_epsilon, self.dtype_policy)

    def build(self, hidden_shape):
        for layer in self.layers:
            layer.build(hidden_shape)
        if self.norm is not None:
            self.norm.build(hidden_shape)
        self.built = True

    def call(self, hidden, attention_mask=None, dropout_keys=None):
        for i, layer in enumerate(self.layers):
            hidden = layer(
                hidden,
                attention_mask=attention_mask,
                dropout_keys=fold_in(dropout_keys, i),
            )
        return self.normalize(hidden)

    def normalize(self, hidden: Tensor) -> Tensor:
        """Returns the output of the stack for that of its last layer."""
        return hidden if self.norm is None else self.norm(hidden)

    def compute_output_shape(self, hidden_shape):
        return hidden_shape

    def get_config(self):
        config = {"num_layers": len(self.layers), **self.layer_config}
        return {**super().get_config(), **config}
