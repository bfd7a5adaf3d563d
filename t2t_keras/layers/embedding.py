"""One matrix for source, target and the projection before the softmax.

Shapes: B batch, L length, D model width, V vocabulary.
"""

import keras
from keras import ops

from t2t_keras.typing import Tensor


class SharedEmbedding(keras.layers.Layer):
    """Vectors times sqrt(d_model) on the way in, the same matrix on the way out.

    Section 3.4. Padding (id 0) has the zero vector, and so has the decoder's first
    input, which is padding shifted in (ADR 0007). The matrix starts as a normal of
    standard deviation d_model^-0.5: vectors of unit variance, logits of about unit
    variance.

    Args:
        vocabulary_size: V.
        d_model: D.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        tokens: [B, L] int in [0, V).

    Returns:
        [B, L, D] float.
    """

    def __init__(self, vocabulary_size: int, d_model: int, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model

    def build(self, tokens_shape=None):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
        )
        self.built = True

    def call(self, tokens):
        vectors = ops.take(self.embeddings, tokens, axis=0)
        vectors = ops.cast(vectors, self.compute_dtype)
        scale = ops.cast(ops.not_equal(tokens, 0), vectors.dtype) * self.d_model**0.5
        return vectors * ops.expand_dims(scale, axis=-1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns [B, L, V] in the dtype of `hidden` [B, L, D]; unscaled, no bias."""
        weights = ops.cast(self.embeddings, hidden.dtype)
        batch, length = ops.shape(hidden)[:2]
        # One matrix, not one for each row of the batch: see `project`.
        rows = ops.reshape(hidden, (-1, self.d_model))
        logits = ops.matmul(rows, ops.transpose(weights))
        return ops.reshape(logits, (batch, length, self.vocabulary_size))

    def compute_output_shape(self, tokens_shape):
        return (*tokens_shape, self.d_model)

    def get_config(self):
        sizes = {"vocabulary_size": self.vocabulary_size, "d_model": self.d_model}
        return {**super().get_config(), **sizes}
