"""Attention maps of sentences and their translations, by a run's model.

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

# Most weights of a batch, over both stacks: 64 MB of float32.
WEIGHTS_AT_ONCE = 1 << 24

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


def kind_title(kind: str) -> str:
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
        # How many weights there are of each pair of positions.
        self._maps = 3 * model.sizes["num_layers"] * model.sizes["num_heads"]

    def __call__(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> Iterator[tuple[SentenceMaps, bool]]:
        """Yields the maps of each pair, and whether the end of a side was cut off.

        Args:
            sources: As the model reads them: a parser's words with blanks between.
            targets: As the model writes them, as many.
        """
        read = [
            (self._reader.read(source), self._reader.read(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        pieces = self._vocabulary.pieces
        for batch in _batch_pairs(read, self._maps):
            source_BS = pad_sentences([source for (source, _), _ in batch])
            target_BT = pad_sentences([target for _, (target, _) in batch])
            maps = self._compute(source_BS, shift_right(target_BT))
            maps = [np.asarray(part) for part in maps]
            for row, ((source, cut), (target, target_cut)) in enumerate(batch):
                weights = [part[row] for part in maps]
                found = sentence_maps(pieces(source), pieces(target), weights)
                yield found, cut or target_cut


def _batch_pairs(read: Sequence[Any], maps: int) -> Iterator[Sequence[Any]]:
    """Yields pairs one after another, as many as their weights allow."""
    batch: list[Any] = []
    longest = 0
    for pair in read:
        length = max(len(ids) for ids, _ in pair)
        longest = max(longest, length)
        if batch and (len(batch) + 1) * longest**2 * maps > WEIGHTS_AT_ONCE:
            yield batch
            batch, longest = [], length
        batch.append(pair)
    if batch:
        yield batch
