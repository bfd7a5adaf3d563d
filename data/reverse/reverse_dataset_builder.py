"""TFDS builder of the reverse task; needs no download."""

import random
from collections.abc import Iterator

import tensorflow_datasets as tfds

_DESCRIPTION = """
Sequences of letter names and the same sequences in the opposite order.
"""
_SEED = 1
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_MAX_WORDS = 12
_Example = tuple[str, dict[str, str]]


class Reverse(tfds.core.GeneratorBasedBuilder):
    """Pairs `source` and `target`; the target has the words in the opposite order.

    The numbers of pairs are class attributes, so that a test can derive a small
    builder from this one.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012 - read by TFDS
    TRAIN_PAIRS = 10_000
    VALIDATION_PAIRS = 200
    TEST_PAIRS = 200

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {"source": tfds.features.Text(), "target": tfds.features.Text()}
            ),
            supervised_keys=("source", "target"),
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[_Example]]:
        del dl_manager  # nothing to download
        sizes = {
            "validation": self.VALIDATION_PAIRS,
            "test": self.TEST_PAIRS,
            "train": self.TRAIN_PAIRS,
        }
        sources = _distinct_sequences(sum(sizes.values()))
        return {
            split: self._generate_examples([next(sources) for _ in range(size)])
            for split, size in sizes.items()
        }

    def _generate_examples(self, sources: list[tuple[str, ...]]) -> Iterator[_Example]:
        for index, words in enumerate(sources):
            target = " ".join(reversed(words))
            yield f"{index:05d}", {"source": " ".join(words), "target": target}


def _distinct_sequences(count: int) -> Iterator[tuple[str, ...]]:
    """Yields so many word sequences of 1 to 12 words, none of them twice.

    All lengths are equally likely as long as they last: there are only 26 sequences
    of one word, and what has been seen is drawn again.
    """
    rng = random.Random(_SEED)
    seen: set[tuple[str, ...]] = set()
    while len(seen) < count:
        words = tuple(rng.choices(_ALPHABET, k=rng.randint(1, _MAX_WORDS)))
        if words not in seen:
            seen.add(words)
            yield words
