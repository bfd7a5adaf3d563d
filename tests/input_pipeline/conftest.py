"""Fixture for all tests of the folder: a small vocabulary, learned once."""

import pytest

from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from tests.input_pipeline.made_up import made_up_pairs


@pytest.fixture(scope="session")
def vocabulary() -> SubwordVocabulary:
    lines = [line for pair in made_up_pairs(300, seed=3) for line in pair]
    return SubwordVocabulary(learn_subwords(lines, vocabulary_size=320))
