"""Fixtures for small vocabularies, learned once from synthetic sentences."""

import random

import pytest

from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords

WORDS = (
    "the a old green house tree walks sleeps quickly and über grün Bäume Haus alt "
    "läuft schläft schnell und das der Straße naïve café 3 14 159 , . !"
).split()


def made_up_lines(num_lines: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(generator.choices(WORDS, k=generator.randint(1, 12)))
        for _ in range(num_lines)
    ]


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return made_up_lines(400, seed=11)


@pytest.fixture(scope="session")
def bpe_model(lines) -> bytes:
    return learn_subwords(lines, vocabulary_size=340)


@pytest.fixture(scope="session")
def unigram_model(lines) -> bytes:
    return learn_subwords(lines, vocabulary_size=310, model_type="unigram")


@pytest.fixture(scope="session", params=["bpe_model", "unigram_model"])
def vocabulary(request) -> SubwordVocabulary:
    return SubwordVocabulary(request.getfixturevalue(request.param))
