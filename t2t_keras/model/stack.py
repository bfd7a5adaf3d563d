"""Stack of layers, the base of encoder and decoder (section 3.1).

Shapes: B batch, L length, D model width.
"""

from collections.abc import Sequence
from typing import Any

import keras

from t2t_keras.typing import Tensor


class Stack(keras.layers.Layer):
    """N layers, and with pre-norm a last normalization.

    Args:
        layers: The layers, in their order.
        norm: Normalization after the last layer. None for post-norm, whose last
            sub-layer ends in one.
        **kwargs: Passed on to `keras.layers.Layer`.
    """

    def __init__(
        self,
        layers: Sequence[Any],
        norm: keras.layers.Layer | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.layers = list(layers)
        self.norm = norm

    def build_layers(self, hidden_shape: Any, *other_shapes: Any) -> None:
        """Builds the layers, each with all shapes, and the normalization."""
        for layer in self.layers:
            # Keras has built a layer that it loads from a file.
            if not layer.built:
                layer.build(hidden_shape, *other_shapes)
        if self.norm is not None and not self.norm.built:
            self.norm.build(hidden_shape)

    def normalize(self, hidden: Tensor) -> Tensor:
        """Returns the output of the stack [B, L, D] for that of its last layer."""
        return hidden if self.norm is None else self.norm(hidden)

    def compute_output_shape(self, hidden_shape):
        return hidden_shape

    def get_config(self):
        config = {
            "layers": keras.saving.serialize_keras_object(self.layers),
            "norm": keras.saving.serialize_keras_object(self.norm),
        }
        return {**super().get_config(), **config}

    @classmethod
    def from_config(cls, config):
        parts = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("layers", "norm")
        }
        return cls(**{**config, **parts})
