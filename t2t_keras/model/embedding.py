"""One matrix for source, target and the projection before the softmax.

Shapes: B batch, L length, D model width, V vocabulary.
"""

import keras
from keras import ops

from t2t_keras.model.projection import project
from t2t_keras.typing import Tensor


@keras.saving.register_keras_serializable(package="t2t_keras")
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
        if not keras.backend.is_int_dtype(tokens.dtype):
            # `fit` under MirroredStrategy builds a model on means of token ids.
            tokens = ops.cast(tokens, "int32")
        vectors = ops.take(self.embeddings, tokens, axis=0)
        vectors = ops.cast(vectors, self.compute_dtype)
        scale = ops.cast(ops.not_equal(tokens, 0), vectors.dtype) * self.d_model**0.5
        return vectors * ops.expand_dims(scale, axis=-1)

    def logits(self, hidden: Tensor, output_kernel: Tensor | None = None) -> Tensor:
        """Returns [B, L, V] in the dtype of `hidden` [B, L, D]; unscaled, no bias.

        Args:
            hidden: [B, L, D] float.
            output_kernel: What the method of that name returned; made here if None.
        """
        if output_kernel is None:
            output_kernel = ops.transpose(ops.cast(self.embeddings, hidden.dtype))
        # One matrix, not one for each row of the batch.
        (logits,) = project(hidden, output_kernel)
        return logits

    def output_kernel(self) -> Tensor | None:
        """Returns [D, V], which many calls of `logits` with few rows can share.

        None in half precision, whose products take the matrix as it stands and are
        no faster with a transposed copy. In float32, 32 rows are 1.6 times as fast.
        """
        if self.compute_dtype != "float32":
            return None
        return ops.transpose(self.embeddings)

    def compute_output_shape(self, tokens_shape):
        return (*tokens_shape, self.d_model)

    def get_config(self):
        sizes = {"vocabulary_size": self.vocabulary_size, "d_model": self.d_model}
        return {**super().get_config(), **sizes}
