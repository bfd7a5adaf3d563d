"""Synthetic corpora for tests, as sentences and as token ids."""

import random
from collections.abc import Sequence

import numpy as np

from t2t_keras.input_pipeline.records.tokenized import (
    TokenizationReport,
    TokenizedCorpus,
    TokenizedSide,
)
from t2t_keras.text.vocabulary import EOS_ID

# The example of the docstrings of `make_batch` and `make_packed_batch`.
TWO_PAIRS = (((5, 6), (7,)), ((8,), (9, 5, 6)))
WORDS = "the a old green house tree walks über grün Bäume Haus alt läuft , .".split()


def made_up_pairs(num_pairs: int, seed: int) -> list[tuple[str, str]]:
    generator = random.Random(seed)

    def sentence() -> str:
        return " ".join(generator.choices(WORDS, k=generator.randint(1, 14)))

    return [(sentence(), sentence()) for _ in range(num_pairs)]


def build_corpus(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> TokenizedCorpus:
    """Returns a corpus of the given token ids, with EOS appended to each side."""
    sides = []
    for sentences in zip(*pairs, strict=True):
        rows = [[*sentence, EOS_ID] for sentence in sentences]
        ends = np.cumsum([0, *map(len, rows)])
        sides.append(TokenizedSide(np.concatenate(rows).astype(np.uint16), ends))
    sizes = [len(side.tokens) for side in sides]
    return TokenizedCorpus(*sides, TokenizationReport(len(pairs), 0, 0, *sizes))


def random_corpus(num_pairs: int, longest: int, seed: int) -> TokenizedCorpus:
    """Returns a corpus of random pairs, each side 1 to `longest` ids with EOS."""
    generator = random.Random(seed)

    def ids() -> list[int]:
        length = int(longest ** generator.random())
        return [generator.randint(3, 60_000) for _ in range(max(1, length - 1))]

    return build_corpus([(ids(), ids()) for _ in range(num_pairs)])


def wmt_lengths(num_pairs: int, longest: int = 256) -> np.ndarray:
    """Random lengths [N, 2] distributed like those of newstest2014-2020.

    Log-normal, with means of 29.6 and 31.9 subwords. The variance is chosen so that
    random batches have 21 % real tokens, as there, and 42 buckets by the longer side,
    each 10 % longer than the one before, have 91 %.
    """
    random = np.random.default_rng(29)
    common, *own = np.exp(
        random.normal(size=[3, num_pairs]) * np.array([[0.56], [0.1], [0.1]])
    )
    sides = [common * side for side in own]
    lengths = np.stack(
        [
            side / side.mean() * mean
            for side, mean in zip(sides, (29.6, 31.9), strict=True)
        ],
        axis=1,
    )
    return np.clip(np.rint(lengths), 2, longest).astype(np.int64)
