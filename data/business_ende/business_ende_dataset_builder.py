"""TFDS builder of the business_ende corpus; needs no download."""

from collections.abc import Iterator

import tensorflow_datasets as tfds
from grammar_ende.corpus import SEED, SentencePair, corpus_splits

from business_ende.sample_sentences import SIZES, draw_sentence

_DESCRIPTION = """
Sentences of formal English letters with German translations and English constituency
trees, made by the grammar of grammar_ende from a fixed seed.
"""
_Example = tuple[str, dict[str, str]]


class BusinessEnde(tfds.core.GeneratorBasedBuilder):
    """Sentence pairs `en`, `de` and the English `tree`, in three splits.

    The numbers of pairs are class attributes, so that a test can derive a small
    builder from this one.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012 - read by TFDS
    TRAIN_PAIRS, VALIDATION_PAIRS, TEST_PAIRS = SIZES

    def _info(self) -> tfds.core.DatasetInfo:
        texts = {name: tfds.features.Text() for name in ("en", "de", "tree")}
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(texts),
            supervised_keys=("en", "de"),
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[_Example]]:
        del dl_manager  # nothing to download
        sizes = self.TRAIN_PAIRS, self.VALIDATION_PAIRS, self.TEST_PAIRS
        splits = corpus_splits(SEED, *sizes, draw=draw_sentence)
        return {
            name: self._generate_examples(pairs)
            for name, pairs in splits._asdict().items()
        }

    def _generate_examples(self, pairs: list[SentencePair]) -> Iterator[_Example]:
        for index, pair in enumerate(pairs):
            yield f"{index:05d}", pair._asdict()
