"""Computation of the attention maps of sentences with a run's model.

Shapes: B batch, S source length, T target length.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from t2t_keras.model.attention_maps import attention_maps
from t2t_keras.model.sentence_maps import SentenceMaps, sentence_maps
from t2t_keras.runs import models, translators
from t2t_keras.text.padding import pad_sentences, shift_right
from t2t_keras.text.reading import TextReader

# Maximum attention weights of a batch, over both stacks: 64 MB of float32.
MAX_WEIGHTS_PER_BATCH = 1 << 24


class MapMaker:
    """Computes the attention maps of sentences with a trained model."""

    def __init__(self, trained: models.TrainedModel):
        model = trained.model
        self._compute = models.trace_on_ids(functools.partial(attention_maps, model))
        self._vocabulary = trained.vocabulary
        longest = translators.longest_source(model)
        self._source_reader = TextReader(trained.vocabulary.source, longest)
        self._target_reader = TextReader(trained.vocabulary, longest)
        # Attention weights for each pair of positions.
        sizes = model.sizes
        layers = sizes["encoder_layers"] + 2 * sizes["decoder_layers"]
        self._num_maps = layers * sizes["num_heads"]

    def __call__(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> Iterator[tuple[SentenceMaps, bool]]:
        """Yields the maps of each pair, and whether the end of a side was cut off.

        Args:
            sources: Model input: for a parser, words separated by blanks.
            targets: Model output for each source.
        """
        tokenized = [
            (self._source_reader.read(source), self._target_reader.read(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        vocabulary = self._vocabulary
        for batch in _batch_pairs(tokenized, self._num_maps):
            source_BS = pad_sentences([source for (source, _), _ in batch])
            target_BT = pad_sentences([target for _, (target, _) in batch])
            maps = self._compute(source_BS, shift_right(target_BT))
            maps = [np.asarray(part) for part in maps]
            for row, ((source, cut), (target, target_cut)) in enumerate(batch):
                weights = [part[row] for part in maps]
                sides = vocabulary.source.pieces(source), vocabulary.pieces(target)
                of_pair = sentence_maps(*sides, weights)
                yield of_pair, cut or target_cut


def map_sentence(
    trained: models.TrainedModel, source: str, target: str | None = None
) -> SentenceMaps:
    """Returns the maps of a sentence and its translation; by default the model's."""
    adapter = trained.task.text_adapter(splits_words=True)
    source = trained.vocabulary.source.normalize(adapter.source(source))
    if target is None:
        # The model's own output: a parser's symbols, not a tree.
        decoding = trained.config.decoding
        translator = trained.keep(
            ("attention", decoding, trained.languages),
            lambda: translators.build_translator(
                trained.model, trained.vocabulary, decoding
            ),
        )
        target = translator.translate([source])[0].text
    make_maps = trained.keep(
        ("attention", trained.languages), lambda: MapMaker(trained)
    )
    [(maps, _)] = make_maps([source], [target])
    return maps


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
