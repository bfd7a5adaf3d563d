"""Token embedding, with the output projection, and positional encoding.

Shapes: B batch, L length, D model width, V vocabulary, N selected tokens, C = D/2
frequencies.
"""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from t2t_keras.model.layers import project
from t2t_keras.typing import Tensor


class OutputRows(NamedTuple):
    """Output projection onto some tokens, which differ between the rows of a batch.

    Attributes:
        tokens: [B, N] int, the tokens.
        matrix: [B, N, D] float, a row for each of them.
        bias: [B, N] float; `()` without a bias.
    """

    tokens: Tensor
    matrix: Tensor
    bias: Tensor


@keras.saving.register_keras_serializable(package="t2t_keras")
class SharedEmbedding(keras.layers.Layer):
    """Embedding times sqrt(d_model), and output projection with the same matrix.

    Section 3.4. Padding (id 0) has the zero vector, and so has the decoder's first
    input, which is padding shifted in (ADR 0007). The matrix is initialized from a
    normal distribution of standard deviation d_model^-0.5: vectors of unit variance,
    logits of about unit variance.

    Args:
        vocabulary_size: V.
        d_model: D.
        tie_output: Whether the output projection has the embedding's matrix, as in the
            paper, and not one of its own with the same initial distribution.
        use_output_bias: Whether the logits have a bias [V], 0 at first.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        tokens: [B, L] int in [0, V).

    Returns:
        [B, L, D] float.
    """

    def __init__(
        self,
        vocabulary_size: int,
        d_model: int,
        tie_output: bool = True,
        use_output_bias: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.tie_output = tie_output
        self.use_output_bias = use_output_bias

    def build(self, tokens_shape=None):
        self.embeddings = self._add_matrix("embeddings")
        self.output_matrix = (
            None if self.tie_output else self._add_matrix("output_matrix")
        )
        self.output_bias = (
            self.add_weight(
                name="output_bias", shape=(self.vocabulary_size,), initializer="zeros"
            )
            if self.use_output_bias
            else None
        )
        self.built = True

    def _add_matrix(self, name: str) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=(self.vocabulary_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
        )

    def call(self, tokens):
        if not keras.backend.is_int_dtype(tokens.dtype):
            # `fit` under MirroredStrategy builds a model on means of token ids.
            tokens = ops.cast(tokens, "int32")
        vectors = self._look_up(tokens)
        scale = ops.cast(ops.not_equal(tokens, 0), vectors.dtype) * self.d_model**0.5
        return vectors * ops.expand_dims(scale, axis=-1)

    def _look_up(self, tokens: Tensor) -> Tensor:
        """Returns the rows of tokens [B, L], [B, L, D] in the compute dtype."""
        return ops.cast(ops.take(self.embeddings, tokens, axis=0), self.compute_dtype)

    @property
    def output_embeddings(self) -> keras.Variable:
        """The matrix [V, D] of the output projection."""
        return self.embeddings if self.output_matrix is None else self.output_matrix

    def logits(
        self, hidden: Tensor, output_kernel: Tensor | OutputRows | None = None
    ) -> Tensor:
        """Returns [B, L, V] in the dtype of `hidden` [B, L, D]; unscaled.

        Args:
            hidden: [B, L, D] float.
            output_kernel: From the method of that name. Default: computed here. If
                from `output_rows`, the result is [B, L, N], of its tokens.
        """
        if isinstance(output_kernel, OutputRows):
            logits = ops.einsum("bld,bnd->bln", hidden, output_kernel.matrix)
            if self.output_bias is not None:
                logits += ops.expand_dims(output_kernel.bias, axis=1)
            return logits
        logits = self._multiply(hidden, output_kernel)
        if self.output_bias is not None:
            logits += ops.cast(self.output_bias, logits.dtype)
        return logits

    def _multiply(self, hidden: Tensor, output_kernel: Any) -> Tensor:
        """Returns [B, L, V], the product of `logits`."""
        if output_kernel is None:
            matrix = ops.cast(self.output_embeddings, hidden.dtype)
            output_kernel = ops.transpose(matrix)
        # One matrix, not one for each row of the batch.
        (logits,) = project(hidden, output_kernel)
        return logits

    def output_kernel(self) -> Tensor | None:
        """Returns [D, V], a kernel for many calls of `logits` with few rows.

        None in half precision, whose products are no faster with a transposed copy of
        the matrix. In float32, 32 rows are 1.6 times as fast.
        """
        if self.compute_dtype != "float32":
            return None
        return ops.transpose(self.output_embeddings)

    def output_rows(self, tokens: Tensor) -> OutputRows:
        """Returns the output projection onto these tokens only, [B, N] int."""

        def take(weight: keras.Variable) -> Tensor:
            return ops.cast(ops.take(weight, tokens, axis=0), self.compute_dtype)

        bias = () if self.output_bias is None else take(self.output_bias)
        return OutputRows(tokens, take(self.output_embeddings), bias)

    def compute_output_shape(self, tokens_shape):
        return (*tokens_shape, self.d_model)

    def get_config(self):
        config = {
            "vocabulary_size": self.vocabulary_size,
            "d_model": self.d_model,
            "tie_output": self.tie_output,
            "use_output_bias": self.use_output_bias,
        }
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="t2t_keras")
class SinusoidalPositionEncoding(keras.layers.Layer):
    """Sinusoidal positional encoding: sines and cosines, added to the embeddings.

    PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same): sine and
    cosine alternate, as the paper prints it. Other programs have other layouts
    (ADR 0004).

    Args:
        max_wavelength: End of the geometric progression of wavelengths, over 2 pi.
        layout: "interleaved"; "halves", all sines before all cosines; or "halves_t2t",
            which has the exponent i / (D/2 - 1) in place of 2i / D too, so that the
            last wavelength is the maximum.
        first_position: Number of a sentence's first position, pos in the formula.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        embeddings: [B, L, D] float. D is even.
        positions: Position of each token in its sentence, from 0 (the layer adds
            `first_position`). int that broadcasts to [B, L]. Default: 0, 1, 2, ...
            Packed rows, where several sentences share a row, and incremental decoding
            pass it.

    Returns:
        [B, L, D], in the dtype of `embeddings`.

    Raises:
        ValueError: If D is odd, or the layout is unknown.

    >>> encode = SinusoidalPositionEncoding(max_wavelength=100.0)
    >>> print(ops.convert_to_numpy(encode(ops.zeros((1, 2, 4)))).round(4)[0])
    [[0.     1.     0.     1.    ]
     [0.8415 0.5403 0.0998 0.995 ]]
    """

    def __init__(
        self,
        max_wavelength: float = 10_000.0,
        layout: str = "interleaved",
        first_position: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if layout not in ("interleaved", "halves", "halves_t2t"):
            raise ValueError(
                'layout must be "interleaved", "halves" or "halves_t2t". '
                f"Received: {layout}"
            )
        self.max_wavelength = max_wavelength
        self.layout = layout
        self.first_position = first_position

    def build(self, embeddings_shape):
        if embeddings_shape[-1] % 2:
            raise ValueError(
                "SinusoidalPositionEncoding needs an even model width. "
                f"Received: embeddings_shape={embeddings_shape}"
            )
        self.built = True

    def call(self, embeddings, positions=None):
        width = embeddings.shape[-1]
        exponent_C = np.arange(0, width, 2, dtype="float64") / width
        if self.layout == "halves_t2t":
            exponent_C = np.arange(width // 2) / max(1, width // 2 - 1)
        frequency_C = (self.max_wavelength**-exponent_C).astype("float32")
        # float32 under every dtype policy: bfloat16 cannot distinguish positions 256
        # and 257, and would give half of 1,024 positions a neighbor's code.
        position_ids = _position_ids(positions, embeddings, self.first_position)
        position_BL = ops.cast(position_ids, "float32")
        angle_BLC = position_BL[..., None] * frequency_C
        parts = [ops.sin(angle_BLC), ops.cos(angle_BLC)]
        if self.layout == "interleaved":
            batch, length = ops.shape(position_BL)
            code_BLC2 = ops.stack(parts, axis=-1)
            code_BLD = ops.reshape(code_BLC2, (batch, length, width))
        else:
            code_BLD = ops.concatenate(parts, axis=-1)
        return embeddings + ops.cast(code_BLD, embeddings.dtype)

    def compute_output_shape(self, embeddings_shape):
        return embeddings_shape

    def get_config(self):
        config = {
            "max_wavelength": self.max_wavelength,
            "layout": self.layout,
            "first_position": self.first_position,
        }
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="t2t_keras")
class LearnedPositionEncoding(keras.layers.Layer):
    """Learned positional encoding: a trained vector for each position (Table 3, row E).

    Args:
        max_length: Number of vectors.
        first_position: Number of the first position's vector. Those before it are not
            used; other programs reserve them for padding.
        **kwargs: Passed on to `keras.layers.Layer`.

    Call args:
        embeddings: [B, L, D] float, L at most `max_length - first_position` if
            `positions` is None.
        positions: As in `SinusoidalPositionEncoding`. Positions past the last one
            get the last one's vector.

    Returns:
        [B, L, D], in the dtype of `embeddings`.

    Raises:
        ValueError: If `first_position` has no vector; or if L is known and too large,
            and `positions` is None.
    """

    def __init__(self, max_length: int, first_position: int = 0, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= first_position < max_length:
            raise ValueError(
                f"first_position must be in [0, {max_length}), the learned positions. "
                f"Received: {first_position}"
            )
        self.max_length = max_length
        self.first_position = first_position

    def build(self, embeddings_shape):
        width = embeddings_shape[-1]
        self.positions = self.add_weight(
            name="positions",
            shape=(self.max_length, width),
            # The root mean square of a sinusoid, for a fair comparison.
            initializer=keras.initializers.RandomNormal(stddev=0.5**0.5),
        )
        self.built = True

    def call(self, embeddings, positions=None):
        length = embeddings.shape[1] if positions is None else None
        usable = self.max_length - self.first_position
        if length is not None and length > usable:
            raise ValueError(
                f"There are learned vectors for {usable} positions. "
                f"Received: {length} tokens. Train with a larger max_length, or use "
                "sinusoids, which have no last position."
            )
        position_BL = _position_ids(positions, embeddings, self.first_position)
        position_BL = ops.minimum(position_BL, self.max_length - 1)
        return embeddings + ops.take(self.positions, position_BL, axis=0)

    def compute_output_shape(self, embeddings_shape):
        return embeddings_shape

    def get_config(self):
        config = {"max_length": self.max_length, "first_position": self.first_position}
        return {**super().get_config(), **config}


def _position_ids(positions: Tensor | None, embeddings: Tensor, first: int) -> Tensor:
    """Returns positions as [B, L] or [1, L] int: 0, 1, 2, ... if None, plus `first`."""
    if positions is None:
        positions = ops.arange(ops.shape(embeddings)[1])
    position_ids: Tensor = ops.convert_to_tensor(positions)
    while len(position_ids.shape) < 2:
        position_ids = ops.expand_dims(position_ids, axis=0)
    return position_ids + first if first else position_ids
