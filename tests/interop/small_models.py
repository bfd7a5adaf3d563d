"""Small models in the reference's terms, for files of other toolkits to hold them.

Ids are this project's: padding 0, end of sentence 1, unknown 2. Rows that a format does
not have are zero here, with a logit that is never likely.
"""

import dataclasses
from typing import Any

import numpy as np

from tests.model.small_model import random_tokens
from tests.reference import transformer_np
from tests.reference.weights_np import Options, Sizes, Weights, random_weights

V, D, F, H = 19, 12, 10, 3
SIZES = Sizes(V, D, F, H, D // H, D // H, num_encoder_layers=2, num_decoder_layers=3)
PIECES = ("<pad>", "</s>", "<unk>", *(f"w{number}" for number in range(3, V)))
# For float32 and a few layers.
TOLERANCE = 3e-5
NO_LOGIT = -100.0


def small_weights(options: Options, added: tuple[int, ...] = ()) -> Weights:
    """Returns random weights, without those of some rows.

    Args:
        options: Choices of the source's toolkit.
        added: Ids whose rows the source does not have.
    """
    weights = random_weights(np.random.default_rng(3), SIZES, options=options)
    for matrix in (
        weights.embedding,
        weights.source_embedding,
        weights.output_embedding,
    ):
        if matrix is not None:
            matrix[[*added]] = 0.0
    bias = np.broadcast_to(weights.output_bias, [V]).copy()
    bias[[*added]] = NO_LOGIT
    return dataclasses.replace(weights, output_bias=bias)


def max_error(model: Any, weights: Weights) -> float:
    """Largest difference of a model's logits from the reference's."""
    rng = np.random.default_rng(5)
    source = random_tokens(rng, (7, 1, 4), 7)
    target = random_tokens(rng, (2, 5, 1), 5)
    shifted = np.pad(target, [(0, 0), (1, 0)])[:, :-1]
    logits = model({"encoder_input_tokens": source, "decoder_input_tokens": shifted})
    expected = [
        transformer_np.logits(
            transformer_np.decode(
                inputs, transformer_np.encode_padded(row, weights), weights, row
            ),
            weights,
        )
        for row, inputs in zip(source, shifted, strict=True)
    ]
    # A model may have further pieces, which its source does not have.
    return float(np.abs(np.array(logits)[..., :V] - np.array(expected)).max())


def first_layers(weights: Weights) -> Weights:
    """Returns a model of one layer in each stack, of which a search traces sooner."""
    return dataclasses.replace(
        weights,
        encoder_layers=weights.encoder_layers[:1],
        decoder_layers=weights.decoder_layers[:1],
    )


def read_arrays(imported: Any) -> dict[str, np.ndarray]:
    """Returns the weights of an `ImportedModel`, read from its files."""
    return {name: np.asarray(read()[:]) for name, read in imported.weights.items()}


def join_heads(kernel: np.ndarray) -> np.ndarray:
    """[D, H, K] to [D, H K], or [H, K] to [H K]."""
    return kernel.reshape(*kernel.shape[:-2], -1)
