"""Attention maps of sentences and their translations: weights with their tokens.

Needs NumPy only, so that maps of any model can be drawn.

Shapes: R layers of a stack, H heads, Q queries, C keys, S source length, T target
length.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Name of the decoder's first input, which has no piece of its own.
BEGIN = "<s>"


class AttentionMap(NamedTuple):
    """Weights of one kind of attention, with the tokens of queries and keys.

    Attributes:
        queries: Q tokens that attend.
        keys: C tokens that are attended to.
        weights: [R, H, Q, C] float; those of each query add up to 1.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: np.ndarray


class SentenceMaps(NamedTuple):
    """Attention maps of one sentence and its translation, by kind.

    Attributes:
        encoder: Encoder self-attention, from source tokens to source tokens.
        decoder: Decoder self-attention, from the tokens written so far to themselves
            and those before them. The first is `BEGIN`; the end of the sentence is
            never an input.
        memory: Cross-attention, from the token being written to source tokens.
    """

    encoder: AttentionMap
    decoder: AttentionMap
    memory: AttentionMap


def kind_title(kind: str) -> str:
    """Returns the title of a kind of attention, a field of `SentenceMaps`."""
    return {
        "encoder": "Encoder self-attention",
        "decoder": "Decoder self-attention",
        "memory": "Encoder-decoder attention",
    }[kind]


def sentence_maps(
    source: Sequence[str],
    target: Sequence[str],
    weights: Sequence[np.ndarray],
) -> SentenceMaps:
    """Returns the maps of a sentence, without the padding of its batch.

    Args:
        source: S tokens, ending with the end of the sentence.
        target: T tokens, ending with the end of the sentence.
        weights: Weights of encoder, decoder and memory (see `AttentionMaps`) for one
            sentence: [R, H, at least Q, at least C]. The rest is padding.
    """
    source, target = tuple(source), tuple(target)
    # At each position the decoder reads the previous token and writes the next.
    inputs = (BEGIN, *target[:-1])
    sides = (source, source), (inputs, inputs), (target, source)
    return SentenceMaps(
        *(
            AttentionMap(queries, keys, part[:, :, : len(queries), : len(keys)])
            for (queries, keys), part in zip(sides, weights, strict=True)
        )
    )
