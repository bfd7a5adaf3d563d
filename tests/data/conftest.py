"""Adds data/ to the import path, as the loader does; fixture for the corpora."""

import pathlib
import sys

import pytest

DATA_DIR = pathlib.Path(__file__).parents[2] / "data"
sys.path.insert(0, str(DATA_DIR))

from business_ende.sample_sentences import (  # noqa: E402 - needs the path
    draw_sentence as draw_letter,
)
from grammar_ende.corpus import Splits, corpus_splits  # noqa: E402


@pytest.fixture(scope="session")
def data_dir() -> pathlib.Path:
    """Returns the folder of the corpora."""
    return DATA_DIR


@pytest.fixture(scope="session")
def splits(request) -> Splits:
    """Returns the whole corpus of a name, as its builder generates it."""
    if request.param == "business_ende":
        return corpus_splits(2017, 12_000, 1_000, 1_000, draw=draw_letter)
    return corpus_splits(2017, train=30_000, validation=1_000, test=1_000)
