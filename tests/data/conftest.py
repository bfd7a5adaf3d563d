"""Adds data/ to the import path, as the loader does; fixture for the corpus."""

import pathlib
import sys

import pytest

DATA_DIR = pathlib.Path(__file__).parents[2] / "data"
sys.path.insert(0, str(DATA_DIR))

from grammar_ende.corpus import Splits, corpus_splits  # noqa: E402 - needs the path


@pytest.fixture(scope="session")
def data_dir() -> pathlib.Path:
    """Returns the folder of the corpora."""
    return DATA_DIR


@pytest.fixture(scope="session")
def splits() -> Splits:
    """Returns the whole grammar_ende corpus, as its builder generates it."""
    return corpus_splits(2017, train=30_000, validation=1_000, test=1_000)
