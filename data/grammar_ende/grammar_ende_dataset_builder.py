"""TFDS builder of the grammar_ende corpus; needs no download."""

from collections.abc import Iterator

import tensorflow_datasets as tfds

from grammar_ende.corpus import SEED, SIZES, SentencePair, corpus_splits

_DESCRIPTION = """
English sentences with German translations and English constituency trees, made by
a synchronous grammar from a fixed seed.
"""
_Example = tuple[str, dict[str, str]]


class GrammarEnde(tfds.core.GeneratorBasedBuilder):
    """Sentence pairs `en`, `de` and the English `tree`, in three splits.

    The numbers of pairs are class attributes, so that a test can derive a small
    builder from this one.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012 - read by TFDS
    TRAIN_PAIRS, VALIDATION_PAIRS, TEST_PAIRS = SIZES

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {
                    "en": tfds.features.Text(),
                    "de": tfds.features.Text(),
                    "tree": tfds.features.Text(),
                }
            ),
            supervised_keys=("en", "de"),
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[_Example]]:
        del dl_manager  # nothing to download
        splits = corpus_splits(
            SEED, self.TRAIN_PAIRS, self.VALIDATION_PAIRS, self.TEST_PAIRS
        )
        return {
            "train": self._generate_examples(splits.train),
            "validation": self._generate_examples(splits.validation),
            "test": self._generate_examples(splits.test),
        }

    def _generate_examples(self, pairs: list[SentencePair]) -> Iterator[_Example]:
        for index, pair in enumerate(pairs):
            yield f"{index:05d}", pair._asdict()
