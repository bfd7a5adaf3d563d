"""Corpora made up for the tests, as sentences and as ids."""

import random

import numpy as np

from t2t_keras.input_pipeline.tokenized import (
    TokenizationReport,
    TokenizedCorpus,
    TokenizedSide,
)
from t2t_keras.text.vocabulary import EOS_ID

WORDS = "the a old green house tree walks über grün Bäume Haus alt läuft , .".split()


def made_up_pairs(num_pairs: int, seed: int) -> list[tuple[str, str]]:
    generator = random.Random(seed)

    def sentence() -> str:
        return " ".join(generator.choices(WORDS, k=generator.randint(1, 14)))

    return [(sentence(), sentence()) for _ in range(num_pairs)]


def corpus_of(pairs: list[tuple[list[int], list[int]]]) -> TokenizedCorpus:
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
