"""Corpora made up for the tests, as sentences and as ids."""

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


def corpus_of(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> TokenizedCorpus:
    """A corpus of given ids; the end of sentence is added here."""
    sides = []
    for sentences in zip(*pairs, strict=True):
        rows = [[*sentence, EOS_ID] for sentence in sentences]
        ends = np.cumsum([0, *map(len, rows)])
        sides.append(TokenizedSide(np.concatenate(rows).astype(np.uint16), ends))
    sizes = [len(side.tokens) for side in sides]
    return TokenizedCorpus(*sides, TokenizationReport(len(pairs), 0, 0, *sizes))


def random_corpus(num_pairs: int, longest: int, seed: int) -> TokenizedCorpus:
    """Sides of 1 to `longest` ids, drawn apart, with the end of sentence."""
    generator = random.Random(seed)

    def ids() -> list[int]:
        length = int(longest ** generator.random())
        return [generator.randint(3, 60_000) for _ in range(max(1, length - 1))]

    return corpus_of([(ids(), ids()) for _ in range(num_pairs)])


def like_wmt(num_pairs: int, longest: int = 256) -> np.ndarray:
    """[N, 2] lengths that fall into buckets as those of newstest2014-2020 do.

    Log-normal, with means of 29.6 and 31.9 subwords and spreads at which random
    batches are 21 % real tokens, and 42 buckets of the longer side, each a tenth
    longer than the one before, 91 %.
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
