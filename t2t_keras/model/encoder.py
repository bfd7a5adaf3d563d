"""Encoder: N layers of self-attention and feed-forward (section 3.1).

Shapes: B batch, S source length, D model width.
"""

import keras

from t2t_keras.model.dropout import EncoderLayerSite, fold_in
from t2t_keras.model.layer_parts import LayerParts, OptionsLayer
from t2t_keras.model.stack import Stack


@keras.saving.register_keras_serializable(package="t2t_keras")
class EncoderLayer(OptionsLayer):
    """Self-attention, then feed-forward, each with its residual and norm.

    Section 3.1.

    Args:
        options: Such as `LayerOptions(d_model=64, num_heads=4, d_ff=256)`.
        parts: Object whose methods make the parts, such as a Transformer. Default: the
            layer itself.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        hidden: [B, S, D] float.
        attention_mask: bool that broadcasts to [B, S, S], True = may attend; with a
            neighborhood, see `NeighborhoodAttention`.
        dropout_keys: [B] uint32, or None to drop nothing.

    Returns:
        [B, S, D].
    """

    def add_parts(self, parts: LayerParts) -> None:
        policy = self.dtype_policy
        self.attention = parts.make_encoder_attention(name="attention", dtype=policy)
        self.attention_residual = parts.make_residual(
            name="attention_residual", dtype=policy
        )
        self.feed_forward = parts.make_feed_forward(name="feed_forward", dtype=policy)
        self.feed_forward_residual = parts.make_residual(
            name="feed_forward_residual", dtype=policy
        )

    def build(self, hidden_shape):
        self.check_width(hidden_shape)
        self.attention.build(hidden_shape)
        self.attention_residual.build(hidden_shape)
        self.feed_forward.build(hidden_shape)
        self.feed_forward_residual.build(hidden_shape)
        self.built = True

    def call(self, hidden, attention_mask=None, dropout_keys=None):
        attended = self.attention(
            self.attention_residual.sublayer_inputs(hidden),
            attention_mask=attention_mask,
            dropout_keys=fold_in(dropout_keys, EncoderLayerSite.ATTENTION_WEIGHTS),
        )
        hidden = self.attention_residual(
            hidden,
            attended,
            dropout_keys=fold_in(dropout_keys, EncoderLayerSite.ATTENTION),
        )
        inputs = self.feed_forward_residual.sublayer_inputs(hidden)
        return self.feed_forward_residual(
            hidden,
            self.feed_forward(inputs),
            dropout_keys=fold_in(dropout_keys, EncoderLayerSite.FEED_FORWARD),
        )


@keras.saving.register_keras_serializable(package="t2t_keras")
class Encoder(Stack):
    """A stack of encoder layers, with pre-norm followed by a normalization.

    Args: those of `Stack`.

    Call args: those of `EncoderLayer`; hidden are embeddings with positions.

    Returns:
        [B, S, D], the decoder's memory.
    """

    def build(self, hidden_shape):
        self.build_layers(hidden_shape)
        self.built = True

    def call(self, hidden, attention_mask=None, dropout_keys=None):
        for i, layer in enumerate(self.layers):
            hidden = layer(
                hidden,
                attention_mask=attention_mask,
                dropout_keys=fold_in(dropout_keys, i),
            )
        return self.normalize(hidden)
