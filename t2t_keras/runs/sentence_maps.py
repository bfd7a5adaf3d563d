"""Attention maps of sentences and their translations, computed by a run's model.

Shapes: B batch, R layers of a stack, H heads, Q queries, C keys, S source length, T
target length.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.model.attention_maps import attention_maps
from t2t_keras.runs import models
from t2t_keras.text.padding import pad_sentences, shift_right
from t2t_keras.text.reading import TextReader

# Maximum attention weights of a batch, over both stacks: 64 MB of float32.
MAX_WEIGHTS_PER_BATCH = 1 << 24

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


class MapMaker:
    """Computes the attention maps of sentences with a trained model.

    Args:
        trained: The model.
    """

    def __init__(self, trained: models.TrainedModel):
        model = trained.model
        ids = tf.TensorSpec([None, None], tf.int32)
        self._compute = tf.function(
            lambda source, shifted: attention_maps(model, source, shifted),
            input_signature=[ids, ids],
        )
        self._vocabulary = trained.vocabulary
        self._reader = TextReader(trained.vocabulary, models.longest_source(model))
        # Attention weights for each pair of positions.
        self._num_maps = 3 * model.sizes["num_layers"] * model.sizes["num_heads"]

    def __call__(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> Iterator[tuple[SentenceMaps, bool]]:
        """Yields the maps of each pair, and whether the end of a side was cut off.

        Args:
            sources: Model input: for a parser, words separated by blanks.
            targets: Model output for each source.
        """
        tokenized = [
            (self._reader.read(source), self._reader.read(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        pieces = self._vocabulary.pieces
        for batch in _batch_pairs(tokenized, self._num_maps):
            source_BS = pad_sentences([source for (source, _), _ in batch])
            target_BT = pad_sentences([target for _, (target, _) in batch])
            maps = self._compute(source_BS, shift_right(target_BT))
            maps = [np.asarray(part) for part in maps]
            for row, ((source, cut), (target, target_cut)) in enumerate(batch):
                weights = [part[row] for part in maps]
                of_pair = sentence_maps(pieces(source), pieces(target), weights)
                yield of_pair, cut or target_cut


def _batch_pairs(pairs: Sequence[Any], num_maps: int) -> Iterator[Sequence[Any]]:
    """Yields batches of consecutive pairs, within `MAX_WEIGHTS_PER_BATCH`."""
    batch: list[Any] = []
    longest = 0
    for pair in pairs:
        length = max(len(ids) for ids, _ in pair)
        longest = max(longest, length)
        weights = (len(batch) + 1) * longest**2 * num_maps
        if batch and weights > MAX_WEIGHTS_PER_BATCH:
            yield batch
            batch, longest = [], length
        batch.append(pair)
    if batch:
        yield batch
