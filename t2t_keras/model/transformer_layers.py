"""Layers of the Transformer, made from its options.

Shapes: V vocabulary, D model width.
"""

from typing import Any

import keras

from t2t_keras.model.decoder import Decoder, DecoderLayer
from t2t_keras.model.dropout import Dropout, DropoutKeyGenerator
from t2t_keras.model.embedding import (
    LearnedPositionEncoding,
    SharedEmbedding,
    SinusoidalPositionEncoding,
)
from t2t_keras.model.encoder import Encoder, EncoderLayer
from t2t_keras.model.layer_parts import LayerParts
from t2t_keras.model.options import (
    TransformerArguments,
    TransformerOptions,
    check_names,
    has_arguments_of,
    option_names,
)


class TransformerLayers(LayerParts, keras.Model):
    """Makes the layers of a Transformer; what it computes with them is a subclass's.

    The arguments are those of `Transformer`.
    """

    # A subclass with options of its own has a subclass of it.
    options_class = TransformerOptions

    @has_arguments_of(TransformerArguments)
    def __init__(self, *args, **kwargs):
        check_names(kwargs, self.options_class)
        given = {
            name: kwargs.pop(name)
            for name in option_names(self.options_class)
            if name in kwargs
        }
        kwargs.setdefault("name", "transformer")
        super().__init__(**kwargs)
        self.options = self.options_class(*args, **given)
        self.sizes = self.options.as_dict()
        self._add_layers()
        self.build()

    def _add_layers(self) -> None:
        """Makes the layers of `sizes`."""
        sizes, policy = self.sizes, self.dtype_policy
        self.embedding = self._make_embedding(
            sizes["vocabulary_size"],
            sizes["d_model"],
            sizes["tie_output"],
            sizes["output_bias"],
            name="embedding",
            dtype=policy,
        )
        source_size = sizes["source_vocabulary_size"] or sizes["vocabulary_size"]
        self._own_source_embedding = (
            None
            if sizes["share_embeddings"]
            else self._make_embedding(
                source_size, sizes["d_model"], name="source_embedding", dtype=policy
            )
        )
        positions = {
            "first_position": sizes["first_position"],
            "name": "positions",
            "dtype": policy,
        }
        self.position_encoding = (
            SinusoidalPositionEncoding(layout=sizes["position_layout"], **positions)
            if sizes["learned_positions"] is None
            else LearnedPositionEncoding(sizes["learned_positions"], **positions)
        )
        self.dropout = Dropout(sizes["dropout_rate"], name="dropout", dtype=policy)
        self.encoder = Encoder(
            [
                self.make_encoder_layer(i, name=f"layer_{i}", dtype=policy)
                for i in range(sizes["encoder_layers"])
            ],
            self._make_last_norm(),
            name="encoder",
            dtype=policy,
        )
        self.decoder = Decoder(
            [
                self.make_decoder_layer(i, name=f"layer_{i}", dtype=policy)
                for i in range(sizes["decoder_layers"])
            ],
            self._make_last_norm(),
            name="decoder",
            dtype=policy,
        )

    def make_encoder_layer(self, index: int, **kwargs: Any) -> keras.layers.Layer:
        """Returns layer number `index`, from 0, of the encoder.

        It is built and called as `EncoderLayer` is. `**kwargs` are its name and dtype.
        """
        return EncoderLayer(self.options, parts=self, **kwargs)

    def make_decoder_layer(self, index: int, **kwargs: Any) -> DecoderLayer:
        """Returns layer number `index`, from 0, of the decoder.

        `decode_step` needs the attributes and the `step` of a `DecoderLayer`.
        `**kwargs` are its name and dtype.
        """
        return DecoderLayer(self.options, parts=self, **kwargs)

    def _make_embedding(self, *args: Any, **kwargs: Any) -> SharedEmbedding:
        return SharedEmbedding(*args, **kwargs)

    def _make_last_norm(self) -> keras.layers.Layer | None:
        """Returns the normalization after a stack, which pre-norm needs."""
        if self.options.normalization == "post":
            return None
        return self.make_norm(name="norm", dtype=self.dtype_policy)

    def build(self, inputs_shape=None):
        # The constructor calls it: no size depends on the input, so a new model can do
        # what Keras refuses without weights, such as `export` and `load_weights`.
        if self.built:
            return
        hidden_shape = (None, None, self.sizes["d_model"])
        self.embedding.build((None, None))
        if self._own_source_embedding is not None:
            self._own_source_embedding.build((None, None))
        self.position_encoding.build(hidden_shape)
        self.dropout.build(hidden_shape)
        self.encoder.build(hidden_shape)
        self.decoder.build(hidden_shape, hidden_shape)
        # After the weights, so that their initial values do not depend on it.
        self._dropout_keys = DropoutKeyGenerator()
        self.built = True

    @property
    def source_embedding(self) -> SharedEmbedding:
        """The encoder's embedding, the decoder's too if they share one."""
        return self._own_source_embedding or self.embedding

    @property
    def output_embeddings(self) -> keras.Variable:
        """The [V, D] matrix whose product with `hidden_states` are the logits."""
        return self.embedding.output_embeddings

    @property
    def output_bias(self) -> keras.Variable | None:
        """The bias [V] that is added to that product; None for none."""
        return self.embedding.output_bias

    @property
    def max_positions(self) -> int | None:
        """Maximum number of tokens that have a position; None for no maximum."""
        return self.options.max_positions

    @property
    def vocabulary_weights(self) -> list[keras.Variable]:
        """The weights [V, ...] with a row for each id of the vocabulary."""
        return list(self.embedding.weights)

    @property
    def source_vocabulary_weights(self) -> list[keras.Variable]:
        """The same of the encoder's own embedding; empty if it has none."""
        own = self._own_source_embedding
        return [] if own is None else list(own.weights)

    def get_config(self):
        return {**super().get_config(), **self.sizes}
