"""Parts of encoder and decoder layers, made by methods that a subclass overrides."""

from typing import Any

import keras

from t2t_keras.errors import UserError
from t2t_keras.model.attention import MultiHeadAttention
from t2t_keras.model.layers import FeedForward, ResidualNorm
from t2t_keras.model.neighborhood_attention import NeighborhoodAttention
from t2t_keras.model.options import option_names
from t2t_keras.settings.model_config import LayerOptions


class LayerParts:
    """Makes the parts of encoder and decoder layers from their options.

    `Transformer`, `EncoderLayer` and `DecoderLayer` have these methods. A subclass of
    `Transformer` that overrides one changes the part in all of the model's layers; a
    subclass of a layer changes it there. The `**kwargs` of each method are the part's
    `name` and `dtype`, for `keras.layers.Layer`.

    Attributes:
        options: Options of the layers.
    """

    options: LayerOptions

    def make_attention(self, **kwargs: Any) -> MultiHeadAttention:
        """Returns an attention: the decoder's two, and by default the encoder's."""
        options = self.options
        return MultiHeadAttention(
            *options.head_sizes(),
            dropout_rate=options.attention_dropout_rate,
            use_bias=options.attention_bias,
            **kwargs,
        )

    def make_encoder_attention(self, **kwargs: Any) -> keras.layers.Layer:
        """Returns the self-attention of an encoder layer; see `make_attention`.

        It is called as `MultiHeadAttention` is, without a memory.
        """
        options = self.options
        if options.encoder_neighborhood is None:
            return self.make_attention(**kwargs)
        return NeighborhoodAttention(
            *options.head_sizes(),
            options.encoder_neighborhood,
            dropout_rate=options.attention_dropout_rate,
            use_bias=options.attention_bias,
            **kwargs,
        )

    def make_feed_forward(self, **kwargs: Any) -> keras.layers.Layer:
        """Returns a feed-forward network, [B, L, D] to [B, L, D]."""
        return FeedForward(self.options.d_ff, self.options.activation, **kwargs)

    def make_norm(self, **kwargs: Any) -> keras.layers.Layer:
        """Returns a normalization, [B, L, D] to [B, L, D]."""
        return keras.layers.LayerNormalization(
            epsilon=self.options.layer_norm_epsilon, **kwargs
        )

    def make_residual(self, *, dtype: Any, **kwargs: Any) -> ResidualNorm:
        """Returns the residual connection around a sub-layer, with its norm."""
        return ResidualNorm(
            self.make_norm(name="norm", dtype=dtype),
            self.options.dropout_rate,
            self.options.normalization,
            dtype=dtype,
            **kwargs,
        )


class OptionsLayer(LayerParts, keras.layers.Layer):
    """Layer that `LayerOptions` describe, and that `LayerParts` make the parts of.

    Args:
        options: Options of the layer.
        parts: Object whose methods make the parts, such as a Transformer. Default: the
            layer itself.
        **kwargs: Passed on to `keras.layers.Layer`.
    """

    def __init__(
        self, options: LayerOptions, parts: LayerParts | None = None, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.options = options
        self._parts_class = type(self if parts is None else parts)
        self.add_parts(self if parts is None else parts)

    def add_parts(self, parts: LayerParts) -> None:
        """Sets attributes of the layer to the parts that it has."""
        raise NotImplementedError

    def check_width(self, hidden_shape: tuple[int | None, ...]) -> None:
        """Raises `UserError` if inputs [B, L, D] do not have the width of the layer."""
        if hidden_shape[-1] != self.options.d_model:
            raise UserError(
                f"{type(self).__name__} takes inputs [B, L, d_model], with "
                f"d_model={self.options.d_model}. Received: shape {hidden_shape}. Set "
                "d_model in LayerOptions."
            )

    def compute_output_shape(self, hidden_shape):
        return hidden_shape

    def get_config(self):
        for name in vars(LayerParts):
            if name.startswith("make_") and not self._makes(name):
                raise UserError(
                    f"A layer whose parts {self._parts_class.__name__}.{name} makes "
                    "has no configuration of its own. Save the model, or override "
                    f"{name} in a subclass of {type(self).__name__}."
                )
        options = {
            name: getattr(self.options, name) for name in option_names(LayerOptions)
        }
        return {**super().get_config(), "options": options}

    def _makes(self, name: str) -> bool:
        """Returns whether the layer itself would make the same part."""
        return getattr(type(self), name) is getattr(self._parts_class, name)

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "options": LayerOptions(**config["options"])})
