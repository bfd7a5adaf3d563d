"""Attention maps of one sentence and its translation: the input of all pictures.

Shapes: R layers of a stack, H heads, Q queries, C keys, S source length, T target
length.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# What the decoder is given before the first word; it has no piece of its own.
BEGIN = "<s>"


class AttentionMap(NamedTuple):
    """One kind of attention: who looks, at what, and how much.

    Attributes:
        queries: Q tokens that look.
        keys: C tokens that are looked at.
        weights: [R, H, Q, C] float; each query's add up to 1.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: np.ndarray


class SentenceMaps(NamedTuple):
    """The three kinds of attention of one sentence and its translation.

    Attributes:
        encoder: Source tokens look at source tokens.
        decoder: Tokens already written look at those before them and at themselves.
            The first of them is `BEGIN`; the end of the sentence is never written.
        memory: The token that is being written looks at source tokens.
    """

    encoder: AttentionMap
    decoder: AttentionMap
    memory: AttentionMap


KINDS = SentenceMaps._fields


def title_of(kind: str) -> str:
    """Returns what people call a kind: a field of `SentenceMaps`."""
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
    """Returns the maps of a sentence out of those of its row in a batch.

    Args:
        source: S tokens, the end of the sentence last.
        target: T tokens, likewise.
        weights: Of encoder, decoder and memory, as `AttentionMaps` has them, of one
            sentence: [R, H, at least Q, at least C]. What is longer is padding.
    """
    source, target = tuple(source), tuple(target)
    # At each position the decoder reads the token before and writes its own.
    written = (BEGIN, *target[:-1])
    sides = (source, source), (written, written), (target, source)
    return SentenceMaps(
        *(
            AttentionMap(queries, keys, part[:, :, : len(queries), : len(keys)])
            for (queries, keys), part in zip(sides, weights, strict=True)
        )
    )
